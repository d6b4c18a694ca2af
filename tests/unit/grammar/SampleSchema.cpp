// Random texts of the grammars of schemas, for programs that check them: each line of the input is
// a schema. A line of the output is {"error": ...} or {"unenforced": [...], "texts": [...]}.
//
//     sample_schema COUNT SEED
#include "runtime/text/grammar/GrammarAutomaton.h"
#include "runtime/text/grammar/JsonSchema.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

using namespace moert;
using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kLong = 60, kMostBytes = 4000;

/// A random text; empty if it became too long.
std::string sample(GrammarAutomaton &automaton, std::mt19937_64 &random) {
  std::string text;
  GrammarAutomaton::State state = automaton.start();
  auto oneIn = [&](uint64_t count) { return random() % count == 0; };
  while (text.size() < kMostBytes) {
    if (automaton.isFull())
      automaton.compact({&state, 1});
    if (automaton.canEnd(state) && (!automaton.canContinue(state) || oneIn(8)))
      return text;
    std::string preferred, others, ends;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (automaton.next(state, static_cast<unsigned char>(byte)) == GrammarAutomaton::kNone)
        continue;
      const bool isRare = byte == ' ' || byte == '\n' || byte >= 0x80 || byte == '\\';
      (isRare ? others : preferred) += static_cast<char>(byte);
      if (byte == '"' || byte == '}' || byte == ']')
        ends += static_cast<char>(byte);
    }
    if (preferred.empty() && others.empty()) {
      std::fprintf(stderr, "dead end after %s\n", text.c_str());
      std::exit(1);
    }
    const bool takesEnd = !ends.empty() && (text.size() > kLong || oneIn(8));
    const bool takesOther = !others.empty() && (preferred.empty() || oneIn(20));
    const std::string &choice = takesEnd ? ends : takesOther ? others : preferred;
    const char byte = choice[random() % choice.size()];
    state = automaton.next(state, static_cast<unsigned char>(byte));
    text += byte;
  }
  return {};
}

} // namespace

int main(int argc, char **argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1;
  std::mt19937_64 random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0);
  for (std::string line; std::getline(std::cin, line);) {
    Result<SchemaGrammar> made = grammarOfSchema(Json::parse(line));
    if (!made.isOk()) {
      std::cout << Json({{"error", made.status().message()}}).dump() << std::endl;
      continue;
    }
    GrammarAutomaton automaton(made->grammar);
    Json texts = Json::array();
    for (int i = 0; i < count; ++i)
      texts.push_back(sample(automaton, random));
    std::cout << Json({{"unenforced", made->unenforced},
                       {"elements", made->grammar.size()},
                       {"texts", texts}})
                     .dump()
              << std::endl;
  }
}
