#include "compiler/emit/EmitArtifact.h"

#include "compiler/emit/CheckpointTokenizer.h"
#include "compiler/emit/Fingerprint.h"
#include "compiler/emit/Journal.h"
#include "compiler/emit/OrderedPipeline.h"
#include "compiler/emit/WeightPieces.h"
#include "compiler/session/KeptForResume.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "runtime/format/Writer.h"

#include <algorithm>

using namespace moert;

namespace moec {

// More threads do not help: the disk is the limit long before.
constexpr unsigned kMaxThreads = 16;

namespace {

/// Writes packed pieces to the file, one after the other, and keeps the journal. Borrows
/// everything; one thread.
class PartWriter {
public:
  PartWriter(Artifact &target, const RecordSource *finished, const WeightPieces &planned,
             OutputFile &output, const Journal &log, uint64_t planFingerprint,
             const EmitState &done, uint64_t intervalBytes)
      : artifact(target), records(finished), weights(planned), file(output), journal(log),
        fingerprint(planFingerprint), state(done), journalIntervalBytes(intervalBytes),
        journaledBytes(output.position()) {
    for (MoeLayer &layer : artifact.moeLayers)
      for (Expert &expert : layer.experts)
        experts.push_back(&expert);
    part = state.records + (state.hasResidents && !artifact.residents.empty() ? 1 : 0);
  }

  size_t firstPiece() const {
    return part < weights.parts.size() ? weights.parts[part].firstPiece : weights.pieces.size();
  }

  Status take(size_t index, std::vector<PackedWeights> packed);
  Status storeJournal() const { return journal.store(fingerprint, state, artifact); }

private:
  bool isResidentPart() const { return part == 0 && !artifact.residents.empty(); }
  Expert &expertOfPart() const { return *experts[part - (artifact.residents.empty() ? 0 : 1)]; }

  Status append(std::span<const std::byte> bytes) {
    checksum.update(bytes);
    return file.append(bytes);
  }
  Status padTo(uint64_t offset);
  Status finishMatrix(const StoredMatrix &matrix);
  void keepRefinements(const WeightPiece &piece, std::span<const PackedWeights> packed);
  Status finishCopy(const StoredMatrix &last);
  Status takeCopied(const RecordPiece &piece, std::span<const std::byte> bytes);
  Status finishPart();

  Artifact &artifact;
  const RecordSource *records; // Finished records, or nullptr.
  const WeightPieces &weights;
  OutputFile &file;
  const Journal &journal;
  uint64_t fingerprint;
  EmitState state;
  uint64_t journalIntervalBytes;
  uint64_t journaledBytes;
  std::vector<Expert *> experts; // In file order.
  size_t part = 0;               // Index into weights.parts of the current part.
  ChecksumStream checksum;       // The current part's or copy's, from its first byte.
  PackedWeights tables;          // What follows the codes of the current matrix.
  /// The slices after the first of the current copy: they follow all matrices of the first slice.
  /// At most the record's own size.
  std::vector<std::vector<std::byte>> refinements;
};

Status PartWriter::padTo(uint64_t offset) {
  static constexpr std::byte kZeros[kRegionAlignment] = {};
  while (file.position() < offset)
    MOERT_RETURN_IF_ERROR(append(
        std::span(kZeros).first(std::min<uint64_t>(sizeof(kZeros), offset - file.position()))));
  return {};
}

Status PartWriter::take(size_t index, std::vector<PackedWeights> packed) {
  const WeightPiece &piece = weights.pieces[index];
  if (piece.copied) {
    MOERT_RETURN_IF_ERROR(takeCopied(*piece.copied, packed.front().codes));
    return index + 1 == weights.parts[part].lastPiece ? finishPart() : Status();
  }
  const StoredMatrix &matrix = weights.matrices[piece.matrix];
  if (piece.firstRow == 0 && matrix.startsCopy) {
    MOERT_RETURN_IF_ERROR(file.padTo(matrix.fileOffset));
    checksum = ChecksumStream();
  }
  if (piece.firstRow == 0)
    MOERT_RETURN_IF_ERROR(padTo(matrix.fileOffset));
  const PackedWeights &first = packed.front();
  MOERT_RETURN_IF_ERROR(append(first.codes));
  tables.scales.insert(tables.scales.end(), first.scales.begin(), first.scales.end());
  tables.offsets.insert(tables.offsets.end(), first.offsets.begin(), first.offsets.end());
  tables.rowScales.insert(tables.rowScales.end(), first.rowScales.begin(), first.rowScales.end());
  tables.lowPlanes.resize(first.lowPlanes.size());
  for (size_t p = 0; p < first.lowPlanes.size(); ++p)
    tables.lowPlanes[p].insert(tables.lowPlanes[p].end(), first.lowPlanes[p].begin(),
                               first.lowPlanes[p].end());
  keepRefinements(piece, std::span(packed).subspan(1));
  if (piece.firstRow + piece.rowCount == matrix.source->rows)
    MOERT_RETURN_IF_ERROR(finishMatrix(matrix));
  if (index + 1 == weights.parts[part].lastPiece)
    return finishPart();
  return {};
}

void PartWriter::keepRefinements(const WeightPiece &piece, std::span<const PackedWeights> packed) {
  refinements.resize(std::max(refinements.size(), packed.size()));
  for (size_t i = 0; i < packed.size(); ++i) {
    std::vector<std::byte> &slice = refinements[i];
    if (piece.firstRow == 0)
      slice.resize(weights.matrices[piece.matrix].refinementOffsets[i]);
    slice.insert(slice.end(), packed[i].codes.begin(), packed[i].codes.end());
  }
}

Status PartWriter::finishCopy(const StoredMatrix &last) {
  Expert &expert = expertOfPart();
  expert.slices[last.firstSlice].checksum = checksum.digest();
  for (size_t i = 0; i < refinements.size(); ++i) {
    Slice &slice = expert.slices[last.firstSlice + 1 + i];
    MOERT_RETURN_IF_ERROR(file.padTo(expert.fileOffset + slice.offset));
    slice.checksum = checksum64(refinements[i]);
    MOERT_RETURN_IF_ERROR(file.append(refinements[i]));
  }
  refinements.clear();
  return {};
}

// Recomputes the checksum from the bytes that were read; it must be the checksum with which the
// record was made.
Status PartWriter::takeCopied(const RecordPiece &piece, std::span<const std::byte> bytes) {
  if (piece.startsSlice) {
    MOERT_RETURN_IF_ERROR(file.padTo(piece.fileOffset + piece.offset));
    checksum = ChecksumStream();
  }
  checksum.update(bytes.first(piece.payloadBytes));
  MOERT_RETURN_IF_ERROR(file.append(bytes));
  if (!piece.endsSlice)
    return {};
  uint64_t found = checksum.digest();
  uint64_t expected = records->sliceChecksum(piece.layer, piece.expert, piece.slice);
  if (found != expected)
    return records->damaged(
        strCat(isResidentPart() ? "the section of resident weights"
                                : strCat("the finished record of MoE layer ", piece.layer,
                                         ", expert ", piece.expert, ", slice ", piece.slice),
               " has checksum ", formatChecksum(found), ", expected ", formatChecksum(expected)));
  if (!isResidentPart())
    expertOfPart().slices[piece.slice].checksum = found;
  return {};
}

Status PartWriter::finishMatrix(const StoredMatrix &matrix) {
  for (size_t p = 0; p < tables.lowPlanes.size(); ++p) {
    MOERT_RETURN_IF_ERROR(padTo(matrix.fileOffset + matrix.layout.planeOffsets[p + 1]));
    MOERT_RETURN_IF_ERROR(append(tables.lowPlanes[p]));
  }
  if (!tables.rowScales.empty()) {
    MOERT_RETURN_IF_ERROR(padTo(matrix.fileOffset + matrix.layout.rowScalesOffset));
    MOERT_RETURN_IF_ERROR(append(tables.rowScales));
  }
  if (!tables.scales.empty()) {
    MOERT_RETURN_IF_ERROR(padTo(matrix.fileOffset + matrix.layout.scalesOffset));
    MOERT_RETURN_IF_ERROR(append(tables.scales));
  }
  if (!tables.offsets.empty()) {
    MOERT_RETURN_IF_ERROR(padTo(matrix.fileOffset + matrix.layout.offsetsOffset));
    MOERT_RETURN_IF_ERROR(append(tables.offsets));
  }
  tables.scales.clear();
  tables.offsets.clear();
  tables.rowScales.clear();
  tables.lowPlanes.clear();
  return matrix.endsCopy ? finishCopy(matrix) : Status();
}

Status PartWriter::finishPart() {
  if (isResidentPart()) {
    artifact.residentChecksum = checksum.digest();
    state.hasResidents = true;
  } else {
    const Expert &expert = expertOfPart();
    MOERT_RETURN_IF_ERROR(file.padTo(expert.fileOffset + expert.bytes));
    state.hasResidents = true;
    ++state.records;
  }
  ++part;
  if (file.position() - journaledBytes >= journalIntervalBytes) {
    MOERT_RETURN_IF_ERROR(file.sync());
    MOERT_RETURN_IF_ERROR(storeJournal());
    journaledBytes = file.position();
  }
  return {};
}

} // namespace

// The end of the parts that a state covers.
static uint64_t endOf(const Artifact &artifact, EmitState state) {
  if (state.records == 0)
    return state.hasResidents ? artifact.residentOffset + artifact.residentBytes : 0;
  for (const MoeLayer &layer : artifact.moeLayers) {
    if (state.records <= layer.experts.size()) {
      const Expert &last = layer.experts[state.records - 1];
      return last.fileOffset + last.bytes;
    }
    state.records -= layer.experts.size();
  }
  return 0;
}

static void clearChecksums(Artifact &artifact) {
  artifact.residentChecksum = artifact.tokenizerChecksum = 0;
  artifact.pathsChecksum = artifact.traceChecksum = 0;
  for (MoeLayer &layer : artifact.moeLayers)
    for (Expert &expert : layer.experts)
      for (Slice &slice : expert.slices)
        slice.checksum = 0;
}

// An absent section has no bytes.
static Status appendSection(std::span<const std::byte> bytes, uint64_t offset, uint64_t &checksum,
                            OutputFile &file) {
  if (bytes.empty())
    return {};
  MOERT_RETURN_IF_ERROR(file.padTo(offset));
  checksum = checksum64(bytes);
  return file.append(bytes);
}

// Writes everything after the records, then the first page, then gives the file its name.
static Status finishFile(EmitPlan &plan, std::span<const std::byte> tokenizerTable,
                         OutputFile &file) {
  Artifact &artifact = plan.artifact;
  MOERT_RETURN_IF_ERROR(
      appendSection(tokenizerTable, artifact.tokenizerOffset, artifact.tokenizerChecksum, file));
  MOERT_RETURN_IF_ERROR(
      appendSection(plan.paths, artifact.pathsOffset, artifact.pathsChecksum, file));
  MOERT_RETURN_IF_ERROR(
      appendSection(plan.trace, artifact.traceOffset, artifact.traceChecksum, file));
  MOERT_ASSIGN_OR_RETURN(SealedArtifact sealed, sealArtifact(artifact));
  MOERT_RETURN_IF_ERROR(file.padTo(sealed.manifestOffset));
  MOERT_RETURN_IF_ERROR(file.append(sealed.manifest));
  MOERT_RETURN_IF_ERROR(file.writeAt(0, sealed.prefix));
  return file.commit();
}

static Result<OutputFile> openFile(const Artifact &artifact, const EmitOptions &options,
                                   const std::optional<EmitState> &done) {
  // The manifest's size is not known yet; it is small.
  if (done)
    return OutputFile::resume(options.outputPath, endOf(artifact, *done), artifact.fileBytes);
  return OutputFile::create(options.outputPath, artifact.fileBytes);
}

static Result<OutputFile> goOn(Artifact &artifact, const EmitOptions &options, Journal &journal,
                               uint64_t fingerprint, std::optional<EmitState> &done) {
  MOERT_ASSIGN_OR_RETURN(done, journal.load(fingerprint, artifact));
  return openFile(artifact, options, done);
}

// Opens the file of an unfinished emission, if there is one, and loads its state from the journal.
static Result<OutputFile> resumeFile(Artifact &artifact, const EmitOptions &options,
                                     Journal &journal, uint64_t fingerprint,
                                     std::optional<EmitState> &done, bool &hasStartedOver) {
  if (OutputFile::isCommitted(options.outputPath))
    journal.remove();
  auto resumed = goOn(artifact, options, journal, fingerprint, done);
  hasStartedOver =
      options.startsOverIfRefused && resumed.status().code() == StatusCode::kInvalidInput;
  if (!hasStartedOver)
    return resumed;
  done.reset();
  return openFile(artifact, options, done);
}

static Status writeWeights(PartWriter &writer, const EmitPlan &plan, const WeightPieces &weights,
                           const Checkpoint *checkpoint, const OutputFile &file,
                           const EmitOptions &options) {
  auto produce = [&](size_t index) {
    return makePiece(plan, weights, weights.pieces[index], checkpoint);
  };
  auto consume = [&](size_t index, std::vector<PackedWeights> packed) -> Status {
    if (options.stop && options.stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    MOERT_RETURN_IF_ERROR(writer.take(index, std::move(packed)));
    if (options.progress)
      options.progress->advanceTo(file.position());
    return {};
  };
  return runInOrder<std::vector<PackedWeights>>(writer.firstPiece(), weights.pieces.size(),
                                                std::clamp(options.threads, 1u, kMaxThreads),
                                                produce, consume);
}

// After an interruption: writes everything that is needed to resume.
static Status syncForLater(OutputFile &file, const PartWriter &writer, const EmitOptions &options) {
  MOERT_RETURN_IF_ERROR(file.sync());
  MOERT_RETURN_IF_ERROR(writer.storeJournal());
  return Status(StatusCode::kInterrupted,
                strCat("interrupted; repeat the command with --resume to continue ",
                       OutputFile::partialPathOf(options.outputPath)));
}

/// checkpoint: null where the plan's records hold all weights.
static Result<EmitResult> emit(EmitPlan &plan, std::span<const std::byte> tokenizerTable,
                               const Checkpoint *checkpoint, const EmitOptions &options) {
  Artifact &artifact = plan.artifact;
  clearChecksums(artifact);
  MOERT_RETURN_IF_ERROR(
      layOutArtifact(artifact, {tokenizerTable.size(), plan.paths.size(), plan.trace.size()}));
  MOERT_ASSIGN_OR_RETURN(WeightPieces weights, cutIntoPieces(plan));
  // Validated before an hour of work instead of after it: only the checksums are missing.
  uint64_t laidOutBytes = artifact.fileBytes;
  MOERT_RETURN_IF_ERROR(sealArtifact(artifact).status());
  artifact.fileBytes = laidOutBytes;

  const uint64_t fingerprint = fingerprintOf(plan, checkpoint, tokenizerTable);
  Journal journal(options.outputPath);
  EmitResult result;
  std::optional<EmitState> done;
  auto opened = options.resume ? resumeFile(artifact, options, journal, fingerprint, done,
                                            result.hasStartedOver)
                               : openFile(artifact, options, done);
  MOERT_ASSIGN_OR_RETURN(OutputFile file, std::move(opened));
  result.resumedBytes = file.position();
  if (!done)
    journal.remove();
  if (options.progress)
    options.progress->begin("writing " + options.outputPath, artifact.fileBytes,
                            result.resumedBytes);

  PartWriter writer(artifact, plan.records, weights, file, journal, fingerprint,
                    done.value_or(EmitState()), options.journalIntervalBytes);
  Status status = writeWeights(writer, plan, weights, checkpoint, file, options);
  if (status.code() == StatusCode::kInterrupted && options.isResumable)
    status = syncForLater(file, writer, options);
  else if (status.isOk())
    status = finishFile(plan, tokenizerTable, file);
  if (options.progress)
    options.progress->end();
  if (options.isResumable && isKeptForResume(status, done.has_value(), journal.exists()))
    file.keep();
  else
    journal.remove();
  MOERT_RETURN_IF_ERROR(std::move(status));
  result.fileBytes = artifact.fileBytes;
  return result;
}

Result<EmitResult> emitArtifact(EmitPlan &plan, const Checkpoint &checkpoint,
                                const EmitOptions &options) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::byte> table, makeTokenizerTable(checkpoint));
  return emit(plan, table, &checkpoint, options);
}

Result<EmitResult> emitArtifact(EmitPlan &plan, const StoredArtifact &stored,
                                const EmitOptions &options) {
  MOERT_RETURN_IF_ERROR(layOutArtifact(plan.artifact, {}));
  MOERT_RETURN_IF_ERROR(stored.checkFits(plan.artifact));
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::byte> table, stored.tokenizerTable());
  plan.records = &stored;
  return emit(plan, table, nullptr, options);
}

} // namespace moec
