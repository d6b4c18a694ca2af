#include "tools/moert/RunContext.h"

#include "runtime/base/OutputFile.h"
#include "tools/moert/EngineFlags.h"

#include <algorithm>

namespace moert::cli {

Result<RunLength> runLength(const LengthRequest &request, uint64_t promptTokens,
                            uint32_t modelPositions) {
  if (request.context && *request.context > modelPositions)
    return invalidInput("--context ", *request.context, ", expected at most ", modelPositions,
                        ", the positions of this model");
  const bool isUnlimited = request.tokens == kNoLimit;
  const bool isShort = isUnlimited && promptTokens < kDefaultContext;
  const uint64_t limit = request.context.value_or(
      isShort ? std::min(modelPositions, kDefaultContext) : modelPositions);
  if (promptTokens > limit)
    return invalidInput("the prompt has ", promptTokens, " tokens, expected at most ", limit,
                        request.context ? " (--context)" : ", the positions of this model");
  const uint64_t room = limit - promptTokens;
  if (request.tokens && !isUnlimited ? *request.tokens > room : room == 0)
    return invalidInput("the prompt has ", promptTokens, " tokens and -n asks for ",
                        isUnlimited ? 1 : request.tokens.value_or(kDefaultTokens),
                        ", expected at most ", limit, " together",
                        request.context ? " (--context)" : ", the positions of this model");
  RunLength length;
  length.maxTokens = static_cast<uint32_t>(
      std::min<uint64_t>(room, isUnlimited ? room : request.tokens.value_or(kDefaultTokens)));
  length.isContextBound = isUnlimited || (!request.tokens && length.maxTokens < kDefaultTokens);
  length.contextTokens =
      request.context.value_or(static_cast<uint32_t>(promptTokens + length.maxTokens));
  return length;
}

Status checkWritable(const std::string &path, std::initializer_list<std::string> inputs) {
  MOERT_RETURN_IF_ERROR(checkReplacesNone(path, inputs));
  return OutputFile::create(path).status();
}

} // namespace moert::cli
