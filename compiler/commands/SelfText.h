// Self-written text, for users without text of their own: documents that a checkpoint writes,
// sampled at temperature 1.
//
// With ids, a document is one window of the model's own stream: it begins after what stands before
// each document of a text, and goes on across end tokens until the window is full. Every token that
// is scored was then drawn from the reference's own distribution p in the context in which it is
// scored. For any artifact with distribution q, therefore
//
//   E[log p(token) - log q(token)] = E[KL(p || q)]
//
// exactly: the expected loss in nats per token is the KL divergence, which is never negative.
// Measured, they differ by sampling error alone.
//
// Text alone does not have this property. Tokenizing it gives other tokens than were drawn, as more
// than one row of tokens has the same text, and tokens that form no UTF-8 become U+FFFD; and a
// document that is packed behind another one is scored in a context in which it was not drawn.
#pragma once

#include "compiler/calibrate/Calibrate.h"
#include "compiler/profile/CheckpointHash.h"
#include "compiler/session/Session.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

/// What documents are for. Those of different uses are independent draws, whatever their seeds.
enum class SelfTextUse { kFile, kCalibration, kAcceptance };

struct SelfTextRequest {
  std::string referencePath; // The checkpoint compiled at `source`.
  std::string outputPath;    // A .jsonl file of documents (TextDocuments.h).
  uint64_t documents = 0;    // At least 1.
  uint64_t seed = 0;
  SelfTextUse use = SelfTextUse::kFile;
  /// At most, with what stands before it: one window, so that no document is cut.
  uint32_t documentTokens = kCalibrationWindowTokens;
  unsigned threads = 1;
  bool hasIds = true;  // See above.
  bool resume = false; // Documents that outputPath's partial file has are kept.
};

/// Document i is a function of the reference, the seed, the use and i alone, whatever the threads
/// and the batch. It begins after the tokens that the tokenizer adds, otherwise after the first end
/// token; without either, its first token is drawn uniformly. With ids it has documentTokens
/// tokens, what it begins after included. Without, it ends before an end token or there, and is
/// drawn again where it would be empty. Interrupted or failed, the finished documents stay in the
/// partial file. Refuses a reference without a tokenizer.
moert::Status writeSelfText(const SelfTextRequest &request, const Session &session);

/// writeSelfText() as a step of a work directory; the path of the documents in it, which is filled
/// in here. What an earlier run with the same request for the same checkpoint has written is used
/// again.
moert::Result<std::string> writeSelfTextInto(const WorkDirectory &work,
                                             const CheckpointHash &checkpoint,
                                             SelfTextRequest request, const Session &session);

/// Makes the reference of a checkpoint in OUT.work and writes its documents; `moec self-text`.
/// Sets request.referencePath.
moert::Status selfTextOfCheckpoint(const std::string &checkpointDirectory, SelfTextRequest request,
                                   const Session &session);

} // namespace moec
