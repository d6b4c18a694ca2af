#include "compiler/emit/CheckpointTokenizer.h"

#include "compiler/import/tokenizer/TokenizerJson.h"
#include "runtime/base/Excerpt.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

using namespace moert;

namespace moec {

Result<std::vector<std::byte>> makeTokenizerTable(const Checkpoint &checkpoint) {
  const std::optional<std::string> &path = checkpoint.tokenizerPath();
  if (!path)
    return std::vector<std::byte>();
  MOERT_ASSIGN_OR_RETURN(const std::string text, checkpoint.tokenizerText());
  MOERT_ASSIGN_OR_RETURN(TokenizerModel model, parseTokenizerJson(text, *path));
  return writeTokenizerTable(model);
}

Status requireTokenizer(const Checkpoint &checkpoint, std::string_view purpose) {
  if (checkpoint.tokenizerPath())
    return {};
  return invalidInput(checkpoint.directory(), ": ", checkpoint.tokenizerAdvice(),
                      "; expected one, since ", purpose, " needs it");
}

Status requireTokenizer(const ImportedModel &model, std::string_view purpose) {
  if (model.description.patches)
    return invalidInput(
        model.checkpoint.directory(), ": found a vision model (", model.description.modelType,
        "), for which there is no calibration and no accuracy target on images yet; "
        "expected --bits source, or --bits 8 or 4 with --no-calibration");
  return requireTokenizer(model.checkpoint, purpose);
}

void warnOfTokenizer(const Checkpoint &checkpoint, const Tokenizer &tokenizer, size_t embeddingRows,
                     const std::function<void(std::string_view)> &warn) {
  const size_t tokens = tokenizer.vocabularySize();
  if (!warn || tokens <= embeddingRows)
    return;
  size_t first = embeddingRows;
  while (tokenizer.contentOf(static_cast<int32_t>(first)).empty() && first + 1 < tokens)
    ++first;
  warn(strCat("warning: ", *checkpoint.tokenizerPath(), " has ", tokens,
              " tokens, the embedding has ", embeddingRows, " rows: texts with token ", first,
              " \"", excerpt(tokenizer.contentOf(static_cast<int32_t>(first))),
              "\" or a later one cannot be run. Tokens were added to the tokenizer alone, or it is "
              "of another model"));
}

Status warnOfTokenizer(const Checkpoint &checkpoint, size_t embeddingRows,
                       const std::function<void(std::string_view)> &warn) {
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> table, makeTokenizerTable(checkpoint));
  if (table.empty())
    return {};
  MOERT_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(table));
  warnOfTokenizer(checkpoint, tokenizer, embeddingRows, warn);
  return {};
}

} // namespace moec
