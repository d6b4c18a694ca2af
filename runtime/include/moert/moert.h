/* The runtime as a C library: open an artifact, load it within a memory budget, compute tokens.
 *
 *   moert_model    an opened artifact: checked, no weights in memory
 *   moert_engine   a loaded model: resident weights, expert cache, worker threads
 *   moert_session  one sequence: its tokens' keys and values
 *
 * Handles. The caller owns what a function returns through `out`, and closes it with the function
 * of its kind: sessions before their engine, engines before their model. Closing NULL does nothing.
 *
 * Errors. A function that can fail returns moert_status, and returns no handle and changes nothing
 * else then. Its last parameter takes the reason in words: NULL, or the address of a pointer that
 * is set to NULL on success, and otherwise to a text for moert_free(). No exception leaves the
 * library; it prints nothing and installs no signal handlers.
 *
 * Options. A struct that is passed in begins with its size in bytes, which its _INIT macro sets
 * with the defaults; NULL stands for the defaults. Later versions add fields at the end: a program
 * works with a newer library, and a newer program with an older library as long as the fields that
 * the library does not know are 0.
 *
 * Threads. A model is immutable: any number of threads may use it. An engine and all of its
 * sessions are used by one thread at a time; the caller serializes. Different engines are
 * independent. moert_stop() alone may be called from any thread or signal handler at any time.
 *
 * Floating point. Every function computes in round to nearest with subnormals, whatever mode the
 * calling thread is in, and restores that mode before it returns. Functions of the caller that it
 * calls run in the library's mode.
 *
 * Texts are UTF-8 and end with a NUL where no length is given. Sizes are in bytes.
 */
#ifndef MOERT_MOERT_H
#define MOERT_MOERT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_MSC_VER)
#error "the library is for Linux"
#endif
#define MOERT_API __attribute__((visibility("default")))

typedef enum moert_status {
  MOERT_OK = 0,
  MOERT_FAILED = 1,  /* The system failed: memory, disk, threads. */
  MOERT_REFUSED = 2, /* An argument, an option or a file is wrong; the text names what would do. */
  MOERT_INTERRUPTED = 3 /* moert_stop() was called. */
} moert_status;

typedef struct moert_model moert_model;
typedef struct moert_engine moert_engine;
typedef struct moert_session moert_session;

/* "0.1.0" */
MOERT_API const char *moert_version(void);
/* Frees a text or an array that a function returned; NULL does nothing. */
MOERT_API void moert_free(void *memory);

/*-- Models --------------------------------------------------------------------------------------*/

/* Reads and checks everything except weights. */
MOERT_API moert_status moert_model_open(const char *path, moert_model **out, char **error);
MOERT_API void moert_model_close(moert_model *model);

typedef struct moert_model_facts {
  size_t struct_bytes;
  uint32_t vocabulary_tokens;
  uint32_t layers;
  uint32_t max_context_tokens;
  uint32_t end_token_count;
  const int32_t *end_tokens; /* Each ends a text. As long as the model is open. */
  int32_t begin_token;       /* -1: none. */
  int32_t has_tokenizer;     /* 0: moert_encode() and moert_decode() refuse. */
  uint64_t expert_bytes;     /* The 100% of moert_budget::expert_fraction. */
} moert_model_facts;
#define MOERT_MODEL_FACTS_INIT                                                                     \
  { sizeof(moert_model_facts), 0, 0, 0, 0, NULL, -1, 0, 0 }

/* Fills in the fields that lie within facts->struct_bytes. */
MOERT_API moert_status moert_model_describe(const moert_model *model, moert_model_facts *facts,
                                            char **error);

/* The ids of a text of `text_bytes` bytes, in an array for moert_free(). add_special: add the
 * tokens that the model expects around a text. */
MOERT_API moert_status moert_encode(const moert_model *model, const char *text, size_t text_bytes,
                                    int add_special, int32_t **out_tokens, size_t *out_count,
                                    char **error);
/* The text of ids, ended by a NUL, for moert_free(). */
MOERT_API moert_status moert_decode(const moert_model *model, const int32_t *tokens, size_t count,
                                    int skip_special, char **out_text, char **error);

/*-- Engines -------------------------------------------------------------------------------------*/

/* A limit for the memory of the whole process. Both 0: what the container and the free memory
 * allow. */
typedef struct moert_budget {
  uint64_t bytes;
  double expert_fraction; /* Above 0: everything else that is needed, and a cache of this fraction
                             of the expert bytes; `bytes` is not used. */
} moert_budget;

typedef struct moert_engine_options {
  size_t struct_bytes;
  moert_budget memory;
  uint32_t context_tokens; /* Of the longest sequence: prompt and generated ones. 0: 512, or what
                              the model has if that is less. */
  uint32_t sessions;       /* That exist at the same time. */
  uint32_t threads;        /* 0: the cores that this process may use. */
  uint32_t prefill_chunk;  /* 0: the plan's, fewer if the budget is small. */
  const char *io;          /* "auto", "uring", "threads" or "buffered"; NULL: auto. */
  const char *isa;         /* "auto", "reference", "avx2", ...; NULL: auto. */
  const char *preset;      /* Of the plans to choose from; NULL: the first plan's. */
  uint64_t program_bytes;  /* Memory of the program itself, which the budget is to include. */
} moert_engine_options;
#define MOERT_ENGINE_OPTIONS_INIT                                                                  \
  { sizeof(moert_engine_options), {0, 0}, 0, 1, 0, 0, NULL, NULL, NULL, 0 }

/* The smallest budget that works, whatever options->memory is. */
MOERT_API moert_status moert_smallest_budget(const moert_model *model,
                                             const moert_engine_options *options,
                                             uint64_t *out_bytes, char **error);
MOERT_API moert_status moert_engine_load(const moert_model *model,
                                         const moert_engine_options *options, moert_engine **out,
                                         char **error);
MOERT_API void moert_engine_close(moert_engine *engine);

typedef struct moert_engine_facts {
  size_t struct_bytes;
  uint64_t budget_bytes;    /* The limit. */
  uint64_t accounted_bytes; /* What the engine may use of it. */
  const char *plan;         /* Name of the plan; until the budget changes. */
  uint32_t prefill_chunk;
  uint32_t vocabulary_tokens; /* Elements of a row of logits. */
} moert_engine_facts;
#define MOERT_ENGINE_FACTS_INIT                                                                    \
  { sizeof(moert_engine_facts), 0, 0, NULL, 0, 0 }

MOERT_API moert_status moert_engine_describe(const moert_engine *engine, moert_engine_facts *facts,
                                             char **error);

/* Continues with another budget: memory beyond a smaller one is returned to the system before this
 * returns. Sessions continue, and what they compute is the same to the bit. Too small a budget is
 * refused with the smallest that works, and a larger one for which there is no memory; nothing has
 * changed then. */
MOERT_API moert_status moert_engine_set_budget(moert_engine *engine, const moert_budget *budget,
                                               char **error);

/* Ends the computation that is under way in this engine, if there is one, or else the next one:
 * it returns MOERT_INTERRUPTED before its next step. */
MOERT_API void moert_stop(moert_engine *engine);

/*-- Sessions ------------------------------------------------------------------------------------*/

/* Refused beyond moert_engine_options::sessions. */
MOERT_API moert_status moert_session_create(moert_engine *engine, moert_session **out,
                                            char **error);
MOERT_API void moert_session_close(moert_session *session);
/* Tokens so far. */
MOERT_API uint32_t moert_session_length(const moert_session *session);
/* Back to an empty sequence. */
MOERT_API void moert_session_reset(moert_session *session);

/* Appends tokens to the sequence. out_logits: NULL, or set to the logits after the last token, one
 * for each token of the vocabulary, which stay valid until the next call for the same engine. After
 * MOERT_INTERRUPTED or MOERT_FAILED the session may have some of the tokens
 * (moert_session_length()). */
MOERT_API moert_status moert_compute(moert_session *session, const int32_t *tokens, size_t count,
                                     const float **out_logits, char **error);

/* One token each of several sessions of an engine, in one step that reads each expert once. */
typedef struct moert_step {
  moert_session *session;
  int32_t token;
  const float *logits; /* Set: after this token; valid until the next call for the same engine. */
} moert_step;
MOERT_API moert_status moert_compute_batch(moert_step *steps, size_t count, char **error);

typedef struct moert_sampling {
  size_t struct_bytes;
  uint32_t max_tokens;
  float temperature; /* 0: the most likely token every time. */
  uint32_t top_k;    /* 0: all. */
  float top_p;       /* Above 0, at most 1. */
  uint64_t seed;
  int32_t ignore_end_tokens;
} moert_sampling;
#define MOERT_SAMPLING_INIT                                                                        \
  { sizeof(moert_sampling), 128, 0, 0, 1, 0, 0 }

typedef enum moert_end {
  MOERT_END_LENGTH = 0, /* max_tokens were generated. */
  MOERT_END_TOKEN = 1,  /* The model produced an end token, which is not passed on. */
  MOERT_END_CALLER = 2, /* The callback returned something other than 0. */
  MOERT_END_CONTEXT = 3 /* The session is full. */
} moert_end;

/* Receives a generated token and the text that it completes: whole characters, `text_bytes` bytes,
 * often none; without a tokenizer always none. Returns 0 to continue. May not call the engine.
 * After the last token it may be called once more with token -1 and the rest of the text. */
typedef int (*moert_take)(void *user, int32_t token, const char *text, size_t text_bytes);

/* Appends tokens to the sequence, then generates: samples a token, passes it to `take`, appends it.
 * The last token that was passed on is not appended. The same options, tokens and seed give the
 * same tokens on every machine and within every budget. */
MOERT_API moert_status moert_generate(moert_session *session, const int32_t *tokens, size_t count,
                                      const moert_sampling *sampling, moert_take take, void *user,
                                      moert_end *out_end, char **error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
