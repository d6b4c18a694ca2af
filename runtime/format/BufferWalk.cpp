#include "runtime/format/BufferWalk.h"

#include "runtime/base/CheckedMath.h"

namespace moert {

static const char *nameOf(BufferKind kind) {
  constexpr const char *kNames[] = {"f32", "i32", "quantized", "hadamard"};
  return kNames[static_cast<uint8_t>(kind)];
}

static bool isRead(FieldRole role) {
  return role == FieldRole::kRead || role == FieldRole::kReadInPlace;
}

bool sharesBytes(const Buffer &a, const Buffer &b) {
  return a.offset < b.offset + b.bytesPerToken && b.offset < a.offset + a.bytesPerToken;
}

static bool isSamePlace(const Buffer &a, const Buffer &b) {
  return a.offset == b.offset && a.bytesPerToken == b.bytesPerToken;
}

Status BufferWalk::checkBuffer(const Buffer &buffer) const {
  bool isGroupRight = isQuantized(buffer.kind)
                          ? buffer.group == 16 || buffer.group == 32 || buffer.group == 64
                          : buffer.group == 0;
  if (!isGroupRight)
    return invalidInput("group ", buffer.group, " of a ", nameOf(buffer.kind),
                        " buffer, expected 16, 32 or 64 where quantized, otherwise 0");
  if (buffer.width == 0)
    return invalidInput("width 0, expected at least 1");
  const uint64_t bytes = buffer.bytesPerRow();
  if (buffer.bytesPerToken == 0 || buffer.bytesPerToken % bytes != 0 ||
      buffer.bytesPerToken / bytes > kMaxRowsPerToken)
    return invalidInput(buffer.bytesPerToken, " bytes per token, a ", nameOf(buffer.kind),
                        " row of ", buffer.width, " has ", bytes, ", and a token at most ",
                        kMaxRowsPerToken, " rows");
  if (buffer.offset % kBufferAlignment != 0)
    return invalidInput("offset ", buffer.offset, ", expected a multiple of ", kBufferAlignment);
  if (!rangeFits(buffer.offset, buffer.bytesPerToken, program.arenaBytesPerToken))
    return invalidInput(buffer.bytesPerToken, " bytes at offset ", buffer.offset,
                        " leave the arena of ", program.arenaBytesPerToken, " bytes per token");
  return {};
}

Status BufferWalk::checkBuffers() const {
  for (size_t i = 0; i < program.buffers.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkBuffer(program.buffers[i]).withContext(strCat("buffer ", i)));
  return {};
}

Result<uint64_t> BufferWalk::widthOf(const char *name, int32_t buffer) const {
  if (buffer < 0 || size_t(buffer) >= program.buffers.size())
    return invalidInput(name, " is buffer ", buffer, ", there are ", program.buffers.size());
  return uint64_t(program.buffers[size_t(buffer)].width);
}

Status BufferWalk::checkShapes(std::span<const Operand> operands) {
  uint64_t rowsAfter = rows;
  for (const auto &[name, buffer, role, expected] : operands) {
    MOERT_ASSIGN_OR_RETURN(uint64_t width, widthOf(name, buffer));
    const Buffer &found = program.buffers[size_t(buffer)];
    if (found.kind != expected.kind)
      return invalidInput(name, " is ", nameOf(found.kind), ", expected ", nameOf(expected.kind));
    if (width != expected.width)
      return invalidInput(name, " has width ", width, ", expected ", expected.width);
    if (found.group != expected.group)
      return invalidInput(name, " has group ", found.group, ", expected ", expected.group);
    const uint64_t needed = expected.rows != 0 ? expected.rows : rows;
    if (found.rows() != needed || (isRead(role) && needed != rows))
      return invalidInput(name, " has ", found.rows(), " rows per token, of which there are ", rows,
                          " here, expected ", needed);
    rowsAfter = needed;
  }
  rows = rowsAfter;
  return {};
}

// Operands share bytes only if nothing is written to them, or exactly where the declaration allows
// a result in place of an input.
Status BufferWalk::checkDisjoint(const Operand &a, const Operand &b) const {
  const Buffer &first = program.buffers[size_t(a.buffer)];
  const Buffer &second = program.buffers[size_t(b.buffer)];
  if ((isRead(a.role) && isRead(b.role)) || !sharesBytes(first, second))
    return {};
  const bool mayBeInPlace = a.role == FieldRole::kReadInPlace || b.role == FieldRole::kReadInPlace;
  if (mayBeInPlace && isSamePlace(first, second) && first.kind == second.kind)
    return {};
  return invalidInput(a.name, " and ", b.name, " share bytes of the arena");
}

void BufferWalk::write(int32_t buffer, bool hasValue) {
  const Buffer &written = program.buffers[size_t(buffer)];
  for (size_t i = 0; i < states.size(); ++i)
    if (sharesBytes(program.buffers[i], written))
      states[i] = {};
  states[size_t(buffer)].hasValue = hasValue;
}

Status BufferWalk::apply(std::span<const Operand> operands) {
  for (const Operand &operand : operands)
    if ((isRead(operand.role) || operand.role == FieldRole::kUpdate) &&
        !states[size_t(operand.buffer)].hasValue)
      return invalidInput(operand.name, " is buffer ", operand.buffer,
                          ", which holds no value here: it was never written or was overwritten");
  for (size_t a = 0; a < operands.size(); ++a)
    for (size_t b = a + 1; b < operands.size(); ++b)
      MOERT_RETURN_IF_ERROR(checkDisjoint(operands[a], operands[b]));
  for (const Operand &operand : operands) {
    if (isRead(operand.role))
      continue;
    const bool isUpdate = operand.role == FieldRole::kUpdate;
    int64_t &routedLayer = states[size_t(operand.buffer)].routedLayer;
    const int64_t before = routedLayer;
    write(operand.buffer, isUpdate || operand.role == FieldRole::kWrite);
    if (isUpdate) // Weights that were changed are still those of the same routing.
      routedLayer = before;
  }
  return {};
}

void BufferWalk::setRouting(int32_t buffer, uint32_t moeLayer) {
  states[size_t(buffer)].routedLayer = moeLayer;
}

Status BufferWalk::checkRouting(int32_t buffer, uint32_t moeLayer) const {
  if (states[size_t(buffer)].routedLayer != int64_t(moeLayer))
    return invalidInput("buffer ", buffer, " does not hold the routing of MoE layer ", moeLayer);
  return {};
}

} // namespace moert
