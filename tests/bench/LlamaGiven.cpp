// llama.cpp at the work that `moert bench --given` does: prefills prompts and decodes the text
// after each of them, token by token. Prefill is timed with flash attention and decoding without
// it, since each is faster that way on a processor; the rest are the library's defaults. Not
// part of the product: tests/bench/llama compiles it against the llama.cpp that it built.
//
//   llama-given run MODEL IDS PROMPT_TOKENS TOKENS TEXTS THREADS REPACK     REPACK: 0 or 1
//   llama-given quantize IN OUT PRESET THREADS
//
// IDS: a file of token ids. A run prints one JSON object: tokens per second of every text, and the
// bytes that the process read from the device for a decoded token.
#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "llama-given: %s\n", message.c_str());
  std::exit(1);
}

void logErrors(ggml_log_level level, const char *text, void *) {
  if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT)
    std::fputs(text, stderr);
}

double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Bytes that this process read from the device, page faults and their read-ahead included.
double deviceBytesRead() {
  std::ifstream io("/proc/self/io");
  std::string key;
  for (double value = 0; io >> key >> value;)
    if (key == "read_bytes:")
      return value;
  fail("/proc/self/io has no read_bytes");
}

void decode(llama_context *context, llama_token *tokens, int32_t count) {
  if (llama_decode(context, llama_batch_get_one(tokens, count)) != 0)
    fail("llama_decode failed");
}

struct Speeds {
  std::vector<double> prefill, decode, bytesPerToken;
};

void printList(const char *name, const std::vector<double> &values, const char *end) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i)
    std::printf("%s%.6g", i == 0 ? "" : ", ", values[i]);
  std::printf("]%s", end);
}

struct Work {
  std::vector<llama_token> ids;
  int32_t promptTokens = 0, tokens = 0;
  size_t texts = 0;

  /// As long as moert's: the prompt, what is decoded, and one token more.
  size_t partTokens() const { return size_t(promptTokens) + size_t(tokens) + 1; }
  /// The parts that moert takes: spread over the ids, or over and over where they are few.
  llama_token *part(size_t text) {
    const size_t parts = ids.size() / partTokens();
    const size_t place = texts < parts ? text * parts / texts : text % parts;
    return ids.data() + place * partTokens();
  }
};

/// Its seconds.
double prefill(llama_context *context, llama_token *part, int32_t promptTokens) {
  llama_memory_clear(llama_get_memory(context), true);
  const auto batch = static_cast<int32_t>(llama_n_batch(context));
  const double begun = secondsNow();
  for (int32_t at = 0; at < promptTokens; at += batch)
    decode(context, part + at, std::min(batch, promptTokens - at));
  llama_synchronize(context);
  return secondsNow() - begun;
}

void runTexts(llama_model *model, Work &work, int32_t threads, bool isDecoding, Speeds &speeds) {
  llama_context_params options = llama_context_default_params();
  options.n_ctx = static_cast<uint32_t>(work.partTokens());
  options.n_threads = options.n_threads_batch = threads;
  options.flash_attn_type =
      isDecoding ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_ENABLED;
  llama_context *context = llama_init_from_model(model, options);
  if (!context)
    fail("cannot make a context");
  // As llama.cpp's own programs do; without one, threads are set up for every token.
  ggml_threadpool_params poolOptions = ggml_threadpool_params_default(threads);
  ggml_threadpool *pool = ggml_threadpool_new(&poolOptions);
  if (!pool)
    fail("cannot start threads");
  llama_attach_threadpool(context, pool, pool);
  for (size_t text = 0; text < work.texts; ++text) {
    llama_token *part = work.part(text);
    const double seconds = prefill(context, part, work.promptTokens);
    if (!isDecoding) {
      speeds.prefill.push_back(work.promptTokens / seconds);
      continue;
    }
    const double begun = secondsNow(), readBefore = deviceBytesRead();
    for (int32_t i = 0; i < work.tokens; ++i) {
      decode(context, part + work.promptTokens + i, 1);
      llama_synchronize(context);
    }
    speeds.decode.push_back(work.tokens / (secondsNow() - begun));
    speeds.bytesPerToken.push_back((deviceBytesRead() - readBefore) / work.tokens);
  }
  llama_free(context);
  ggml_threadpool_free(pool);
}

int run(char **arguments) {
  Work work;
  std::ifstream file(arguments[1]);
  for (llama_token id = 0; file >> id;)
    work.ids.push_back(id);
  work.promptTokens = std::atoi(arguments[2]);
  work.tokens = std::atoi(arguments[3]);
  work.texts = static_cast<size_t>(std::atoi(arguments[4]));
  if (work.ids.size() < work.partTokens())
    fail(std::string(arguments[1]) + " has too few tokens for one text");

  llama_model_params modelOptions = llama_model_default_params();
  modelOptions.use_extra_bufts = std::atoi(arguments[6]) != 0;
  llama_model *model = llama_model_load_from_file(arguments[0], modelOptions);
  if (!model)
    fail(std::string("cannot load ") + arguments[0]);
  Speeds speeds;
  for (bool isDecoding : {false, true})
    runTexts(model, work, std::atoi(arguments[5]), isDecoding, speeds);
  std::printf("{");
  printList("prefill", speeds.prefill, ", ");
  printList("decode", speeds.decode, ", ");
  printList("bytes_per_token", speeds.bytesPerToken, "}\n");
  llama_model_free(model);
  return 0;
}

int quantize(char **arguments) {
  const std::map<std::string, llama_ftype> presets = {
      {"Q2_K", LLAMA_FTYPE_MOSTLY_Q2_K},     {"Q3_K_S", LLAMA_FTYPE_MOSTLY_Q3_K_S},
      {"Q3_K_M", LLAMA_FTYPE_MOSTLY_Q3_K_M}, {"Q4_0", LLAMA_FTYPE_MOSTLY_Q4_0},
      {"Q4_K_S", LLAMA_FTYPE_MOSTLY_Q4_K_S}, {"Q4_K_M", LLAMA_FTYPE_MOSTLY_Q4_K_M},
      {"Q5_K_M", LLAMA_FTYPE_MOSTLY_Q5_K_M}, {"Q6_K", LLAMA_FTYPE_MOSTLY_Q6_K},
      {"Q8_0", LLAMA_FTYPE_MOSTLY_Q8_0}};
  auto preset = presets.find(arguments[2]);
  if (preset == presets.end())
    fail(std::string("no preset ") + arguments[2]);
  llama_model_quantize_params options = llama_model_quantize_default_params();
  options.ftype = preset->second;
  options.nthread = std::atoi(arguments[3]);
  if (llama_model_quantize(arguments[0], arguments[1], &options) != 0)
    fail(std::string("cannot quantize ") + arguments[0]);
  return 0;
}

} // namespace

int main(int count, char **arguments) {
  const std::string command = count > 1 ? arguments[1] : "";
  llama_log_set(logErrors, nullptr);
  llama_backend_init();
  if (command == "run" && count == 9)
    return run(arguments + 2);
  if (command == "quantize" && count == 6)
    return quantize(arguments + 2);
  fail("expected run or quantize with their arguments");
}
