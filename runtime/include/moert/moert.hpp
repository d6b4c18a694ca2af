// The runtime for C++ programs: owners for the handles of moert.h, and exceptions for its errors.
// Everything here is compiled into the program that includes it: the library's own interface is C,
// so a program and the library may come from different compilers. The rules for threads and
// lifetimes are those of moert.h.
#pragma once

#include "moert/moert.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace moert::inline v0 {

class Error : public std::runtime_error {
public:
  Error(moert_status code, const std::string &reason) : std::runtime_error(reason), status(code) {}
  moert_status code() const { return status; }

private:
  moert_status status;
};

namespace detail {

struct Free {
  void operator()(void *memory) const { moert_free(memory); }
  void operator()(moert_model *model) const { moert_model_close(model); }
  void operator()(moert_engine *engine) const { moert_engine_close(engine); }
  void operator()(moert_session *session) const { moert_session_close(session); }
};
template <typename T> using Owner = std::unique_ptr<T, Free>;

/// Calls a function of moert.h with these arguments and a place for its error.
template <typename Function, typename... Arguments>
void call(Function function, Arguments... arguments) {
  char *text = nullptr;
  const moert_status status = function(arguments..., &text);
  const Owner<char> owner(text);
  if (status != MOERT_OK)
    throw Error(status, text ? text : "there is not enough memory");
}

} // namespace detail

struct EngineOptions : moert_engine_options {
  EngineOptions() : moert_engine_options(MOERT_ENGINE_OPTIONS_INIT) {}
};

struct Sampling : moert_sampling {
  Sampling() : moert_sampling(MOERT_SAMPLING_INIT) {}
};

/// An opened artifact; outlives its engines.
class Model {
public:
  explicit Model(const std::string &path) {
    moert_model *opened = nullptr;
    detail::call(moert_model_open, path.c_str(), &opened);
    handle.reset(opened);
  }

  moert_model_facts facts() const {
    moert_model_facts facts = MOERT_MODEL_FACTS_INIT;
    detail::call(moert_model_describe, handle.get(), &facts);
    return facts;
  }

  std::vector<int32_t> encode(std::string_view text, bool addSpecial = true) const {
    int32_t *tokens = nullptr;
    size_t count = 0;
    detail::call(moert_encode, handle.get(), text.data(), text.size(), int(addSpecial), &tokens,
                 &count);
    const detail::Owner<int32_t> owner(tokens);
    return {tokens, tokens + count};
  }

  std::string decode(std::span<const int32_t> tokens, bool skipSpecial = true) const {
    char *text = nullptr;
    detail::call(moert_decode, handle.get(), tokens.data(), tokens.size(), int(skipSpecial), &text);
    const detail::Owner<char> owner(text);
    return text;
  }

  uint64_t smallestBudget(const EngineOptions &options) const {
    uint64_t bytes = 0;
    detail::call(moert_smallest_budget, handle.get(), &options, &bytes);
    return bytes;
  }

  moert_model *get() const { return handle.get(); }

private:
  detail::Owner<moert_model> handle;
};

/// A loaded model; outlives its sessions. For one thread at a time.
class Engine {
public:
  Engine(const Model &model, const EngineOptions &options) {
    moert_engine *loaded = nullptr;
    detail::call(moert_engine_load, model.get(), &options, &loaded);
    handle.reset(loaded);
  }

  moert_engine_facts facts() const {
    moert_engine_facts facts = MOERT_ENGINE_FACTS_INIT;
    detail::call(moert_engine_describe, handle.get(), &facts);
    return facts;
  }
  void setBudget(const moert_budget &budget) {
    detail::call(moert_engine_set_budget, handle.get(), &budget);
  }
  /// From any thread or signal handler.
  void stop() { moert_stop(handle.get()); }

  moert_engine *get() const { return handle.get(); }

private:
  detail::Owner<moert_engine> handle;
};

/// One sequence.
class Session {
public:
  /// Receives a token and the text that it completes; returns false to end.
  using Take = std::function<bool(int32_t token, std::string_view text)>;

  explicit Session(Engine &engine) : vocabulary(vocabularyOf(engine)) {
    moert_session *created = nullptr;
    detail::call(moert_session_create, engine.get(), &created);
    handle.reset(created);
  }

  uint32_t length() const { return moert_session_length(handle.get()); }
  void reset() { moert_session_reset(handle.get()); }

  /// The logits after the last token, valid until the next call for the same engine.
  std::span<const float> compute(std::span<const int32_t> tokens) {
    const float *logits = nullptr;
    detail::call(moert_compute, handle.get(), tokens.data(), tokens.size(), &logits);
    return {logits, vocabulary};
  }

  /// An exception of `take` ends the generation and is thrown here.
  moert_end generate(std::span<const int32_t> tokens, const Sampling &sampling, const Take &take) {
    Taking taking = {take, nullptr};
    moert_end end = MOERT_END_LENGTH;
    detail::call(moert_generate, handle.get(), tokens.data(), tokens.size(), &sampling,
                 &Taking::pass, static_cast<void *>(&taking), &end);
    if (taking.thrown)
      std::rethrow_exception(taking.thrown);
    return end;
  }

  moert_session *get() const { return handle.get(); }

private:
  struct Taking {
    const Take &take;
    std::exception_ptr thrown;

    static int pass(void *user, int32_t token, const char *text, size_t bytes) {
      auto &taking = *static_cast<Taking *>(user);
      try {
        return taking.take(token, {text, bytes}) ? 0 : 1;
      } catch (...) {
        taking.thrown = std::current_exception();
        return 1;
      }
    }
  };

  static size_t vocabularyOf(const Engine &engine) { return engine.facts().vocabulary_tokens; }

  size_t vocabulary;
  detail::Owner<moert_session> handle;
};

} // namespace moert::inline v0
