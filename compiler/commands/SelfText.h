// Text for those who have none: documents that a checkpoint writes itself, sampled at
// temperature 1.
//
// They are drawn from the reference's own distribution, so on them the expected loss in nats of
// another artifact is its KL divergence from the reference, which is never negative.
#pragma once

#include "compiler/calibrate/Calibrate.h"
#include "compiler/session/Session.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

struct SelfTextRequest {
  std::string referencePath;  // The checkpoint compiled at `source`.
  std::string outputPath;     // A .jsonl file: {"text": "..."} per line.
  uint64_t documents = 0;     // At least 1.
  uint64_t firstDocument = 0; // Documents of one seed are numbered; each is a draw of its own.
  uint64_t seed = 0;
  /// Of a document, its separator token included: one window, so that no document is cut.
  uint32_t documentTokens = kCalibrationWindowTokens;
  unsigned threads = 1;
  bool resume = false; // Documents that outputPath's partial file has are kept.
};

/// Document i is a function of the reference, the seed and i alone, whatever the threads and the
/// batch. It begins after the model's separator token (a begin token of the tokenizer, otherwise
/// the first end token; without either, after a token drawn uniformly) and ends before an end token
/// or after documentTokens. Empty documents are drawn again. Interrupted or failed, it leaves the
/// finished documents in the partial file. Refuses a reference without a tokenizer.
moert::Status writeSelfText(const SelfTextRequest &request, const Session &session);

/// writeSelfText() as a step of a work directory, under `step` and a key that decides the bytes:
/// what an earlier run finished is used again.
moert::Status writeSelfTextInto(const WorkDirectory &work, const std::string &step,
                                const std::string &key, SelfTextRequest request,
                                const Session &session);

/// Makes the reference of a checkpoint in OUT.work and writes its documents; `moec self-text`.
/// request.referencePath is filled in here.
moert::Status selfTextOfCheckpoint(const std::string &checkpointDirectory, SelfTextRequest request,
                                   const Session &session);

} // namespace moec
