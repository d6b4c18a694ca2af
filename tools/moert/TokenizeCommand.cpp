// moert tokenize: converts text to token ids, or back.
#include "runtime/base/InputText.h"
#include "runtime/text/tokenizer/TokenIds.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/OutputStream.h"
#include "tools/moert/Command.h"
#include "tools/moert/LoadedModel.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace moert::cli {

namespace {

struct TokenizeOptions {
  std::string artifact, file;
  bool decodes = false;
};

Status tokenize(const TokenizeOptions &options) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::openText(options.artifact));
  MOERT_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, tokenizerOf(*model, "moert tokenize"));
  MOERT_ASSIGN_OR_RETURN(std::string text, readInput(options.file));
  if (options.decodes) {
    MOERT_ASSIGN_OR_RETURN(
        std::vector<int32_t> ids,
        parseTokenIds(text, tokenizer->vocabularySize(), inputName(options.file)));
    return writeOutput(tokenizer->decode(ids, false));
  }
  MOERT_RETURN_IF_ERROR(checkUtf8(text, inputName(options.file)));
  MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer->encode(text, true));
  std::string out;
  appendTokenIds(ids, out);
  out += '\n';
  return writeOutput(out);
}

} // namespace

void addTokenizeCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<TokenizeOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand("tokenize", "Turn text into token ids, or back");
  command->add_option("artifact", options->artifact, "The compiled model")
      ->type_name("OUT.moe")
      ->required();
  command
      ->add_option("-f,--file", options->file,
                   "Text, or token ids with --decode; - is standard input")
      ->type_name("FILE")
      ->required()
      ->group("Input");
  command
      ->add_flag("--decode", options->decodes, "Turn token ids into text, special tokens included")
      ->group("Input");
  command->footer(exampleFooter("echo \"The old man\" | moert tokenize qwen.moe -f -"));
  command->callback([options, &chosen] { chosen = [options] { return tokenize(*options); }; });
}

} // namespace moert::cli
