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
// exactly: the expected loss in nats per token is the KL divergence, which is never negative. On
// documents of the bundled model the two differ by the sampling error alone: at 4 bits 0.0053 and
// 0.0053, at 2 bits 0.098 and 0.096, with standard errors of 0.00015 and 0.0007 (1,000 documents).
//
// Text alone (hasIds = false: documents that end at an end token, for another tokenizer) does not
// have this property. Tokenizing it gives other tokens than were drawn, in 83% of 2,000 documents
// of the bundled model: most often as other tokens have the same text, in 15% as some form no
// UTF-8. And a document that is packed behind another one is scored in a context in which it was
// not drawn. Of those documents the loss was 0.0038 nats at a divergence of 0.0054, and 0.079 at
// 0.096; with their ids, but packed, 0.0040 and 0.083.
#pragma once

#include "compiler/calibrate/Calibrate.h"
#include "compiler/profile/CheckpointHash.h"
#include "compiler/session/Session.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// What documents are for. Those of different uses are independent draws, whatever their seeds.
enum class SelfTextUse { kFile, kCalibration, kAcceptance };

/// Labels of the step.
constexpr const char *kWritingText = "writing text",
                     *kWritingCalibration = "writing calibration text",
                     *kWritingAcceptance = "writing acceptance text",
                     *kWritingMeasured = "writing text to measure on";

struct SelfTextRequest {
  std::string referencePath; // The checkpoint compiled at `source`.
  std::string outputPath;    // A .jsonl file of documents (TextDocuments.h).
  uint64_t documents = 0;    // At least 1.
  uint64_t seed = 0;
  SelfTextUse use = SelfTextUse::kFile;
  const char *label = kWritingText;
  /// At most, with what stands before it: one window, so that no document is cut.
  uint32_t documentTokens = kCalibrationWindowTokens;
  unsigned threads = 1;
  bool hasIds = true;   // See above.
  bool hasNats = false; // Each line has a document's loss too (referenceNatsOf()); with ids.
  bool resume = false;  // Documents that outputPath's partial file has are kept.
  bool restart = false; // Removes what an interrupted command left; not with resume.
};

/// Document i is a function of the reference, the seed, the use and i alone, whatever the threads
/// and the batch. It begins after the tokens that the tokenizer adds, otherwise after the first end
/// token; without either, its first token is drawn uniformly. With ids it has documentTokens
/// tokens, what it begins after included. Without, it ends before an end token or there, and is
/// drawn again where it would be empty. Interrupted or failed, the finished documents stay in the
/// partial file. Refuses a reference without a tokenizer.
moert::Status writeSelfText(const SelfTextRequest &request, const Session &session);

/// The loss in nats that the reference has on each document's window, to the bit of what scoring
/// the window gives: the tokens were drawn from the rows that score them. `content` is that of a
/// file that was written with hasNats. Empty where documents are not windows, or where two or
/// more tokens stand before each, which are scored but not drawn.
moert::Result<std::vector<double>> referenceNatsOf(std::string_view content, std::string_view name);

/// writeSelfText() as a step of a work directory; the path of the documents in it, which is filled
/// in here. What an earlier run with the same request for the same checkpoint has written is used
/// again.
moert::Result<std::string> writeSelfTextInto(const WorkDirectory &work,
                                             const CheckpointHash &checkpoint,
                                             SelfTextRequest request, const Session &session);

/// Makes the reference of a checkpoint in OUT.work and writes its documents; `moec self-text`.
/// request.referencePath is filled in here.
moert::Status selfTextOfCheckpoint(const std::string &checkpointDirectory,
                                   const SelfTextRequest &request, const Session &session);

} // namespace moec
