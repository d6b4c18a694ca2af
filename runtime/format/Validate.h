// The rules between the fields of an Artifact, which let the engine trust every index, offset and
// size. Run on everything that is read, and on everything before it is written.
//
// The limits below are far beyond any model. They exist so that sums and products of valid fields
// cannot overflow 64 bits and so that checking takes bounded time.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstdint>

namespace moert {

constexpr uint64_t kMaxBytesPerToken = uint64_t(1) << 32; // Arena of a program; KV of all slots.
constexpr uint64_t kMaxStateBytes = uint64_t(1) << 32;    // All state slots of a sequence.
constexpr size_t kMaxBuffers = 8192;
constexpr size_t kMaxInstructions = 65536;
constexpr uint32_t kMinPageBytes = 4096;
constexpr uint32_t kMaxPageBytes = uint32_t(1) << 20;
// The longest published template has about 30 KB; a checkpoint has three of them at most.
constexpr size_t kMaxChatTemplates = 16;
constexpr size_t kMaxChatTemplateBytes = size_t(256) << 10;
constexpr size_t kMaxChatNameBytes = 64;
constexpr size_t kMaxChatSpecialTokens = 64;
constexpr size_t kMaxSpecialTokenBytes = 1024;

/// Checks every rule of docs/format.md that does not need the file's bytes.
Status validateArtifact(const Artifact &artifact);

/// The rules about layers with experts and their records; sections have passed already.
Status validateMoeLayers(const Artifact &artifact);

/// The rules about one program; the rest of the artifact has passed already.
Status validateProgram(const Artifact &artifact, const Program &program);

/// The rules about a plan that need nothing but the plan; the compiler's IR has them too.
Status checkPlan(const Plan &plan);

/// All rules about plans; model, sections and layers have passed already.
Status validatePlans(const Artifact &artifact);

/// The rules about measurements; the model has passed already.
Status validateMeasured(const Artifact &artifact);
Status validateQuickLoss(const Artifact &artifact);

/// The rules about a checkpoint's templates and sampling defaults, which a compiler checks too,
/// before it takes them over.
Status validateChat(const Chat &chat);
Status validateSampling(const SamplingDefaults &sampling);

} // namespace moert
