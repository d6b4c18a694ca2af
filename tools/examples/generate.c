/* cc generate.c $(pkg-config --cflags --libs moert) -o generate && ./generate model.moe "The old man" */
#include <moert/moert.h>
#include <stdio.h>
#include <string.h>

static int show(void *user, int32_t token, const char *text, size_t bytes) {
  (void)token, (void)user;
  return fwrite(text, 1, bytes, stdout) != bytes;
}

static char *error;

static int generate(const char *path, const char *prompt) {
  moert_model *model = NULL;
  moert_engine *engine = NULL;
  moert_session *session = NULL;
  moert_engine_options options = MOERT_ENGINE_OPTIONS_INIT;
  options.memory.expert_fraction = 0.25;
  int32_t *tokens = NULL;
  size_t count = 0;
  int status = moert_model_open(path, &model, &error);
  if (!status) status = moert_encode(model, prompt, strlen(prompt), 1, &tokens, &count, &error);
  if (!status) status = moert_engine_load(model, &options, &engine, &error);
  if (!status) status = moert_session_create(engine, &session, &error);
  if (!status) status = moert_generate(session, tokens, count, NULL, show, NULL, NULL, &error);
  moert_session_close(session), moert_engine_close(engine), moert_model_close(model), moert_free(tokens);
  return status;
}

int main(int argc, char **argv) {
  int status = argc == 3 ? generate(argv[1], argv[2]) : MOERT_REFUSED;
  return status ? fprintf(stderr, "%s\n", error ? error : "usage: generate MODEL PROMPT"), status : 0;
}
