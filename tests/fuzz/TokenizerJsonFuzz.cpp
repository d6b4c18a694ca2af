// A tokenizer.json from a stranger: what is accepted can be stored, loads, and tokenizes.
#include "compiler/import/tokenizer/TokenizerJson.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  moert::Result<moert::TokenizerModel> model = moert::parseTokenizerJson(text, "fuzz");
  if (!model.isOk())
    return 0;
  std::vector<std::byte> table = moert::writeTokenizerTable(model.value());
  moert::Result<moert::Tokenizer> tokenizer = moert::Tokenizer::load(table);
  if (!tokenizer.isOk())
    std::abort();
  moert::Result<std::vector<int32_t>> ids =
      tokenizer.value().encode("The sea,  12 nets\nund Z\xc3\xbcge \xe2\x80\x94 \xff!", true);
  if (ids.isOk())
    (void)tokenizer.value().decode(ids.value(), false);
  return 0;
}
