#include "runtime/format/BufferWalk.h"

#include "runtime/base/CheckedMath.h"

namespace moert {

static const char *nameOf(BufferKind kind) {
  constexpr const char *kNames[] = {"f32", "i32", "quantized"};
  return kNames[static_cast<uint8_t>(kind)];
}

Operand f32Operand(const char *name, int32_t buffer, uint64_t width, Access access) {
  return {name, buffer, BufferKind::kF32, width, 0, access};
}
Operand i32Operand(const char *name, int32_t buffer, uint64_t width, Access access) {
  return {name, buffer, BufferKind::kI32, width, 0, access};
}

bool sharesBytes(const Buffer &a, const Buffer &b) {
  return a.offset < b.offset + b.bytesPerToken && b.offset < a.offset + a.bytesPerToken;
}

static bool isSamePlace(const Buffer &a, const Buffer &b) {
  return a.offset == b.offset && a.bytesPerToken == b.bytesPerToken;
}

Status BufferWalk::checkBuffer(const Buffer &buffer) const {
  bool isGroupRight = buffer.kind == BufferKind::kQuantized
                          ? buffer.group == 16 || buffer.group == 32 || buffer.group == 64
                          : buffer.group == 0;
  if (!isGroupRight)
    return invalidInput("group ", buffer.group, " of a ", nameOf(buffer.kind),
                        " buffer, expected 16, 32 or 64 where quantized, otherwise 0");
  if (buffer.width == 0)
    return invalidInput("width 0, expected at least 1");
  uint64_t bytes = bufferBytesPerToken(buffer.kind, buffer.width, buffer.group);
  if (buffer.bytesPerToken != bytes)
    return invalidInput(buffer.bytesPerToken, " bytes per token, a ", nameOf(buffer.kind),
                        " row of ", buffer.width, " has ", bytes);
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

Status BufferWalk::checkOperand(const Operand &operand) const {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, widthOf(operand.name, operand.buffer));
  const Buffer &buffer = program.buffers[size_t(operand.buffer)];
  if (buffer.kind != operand.kind)
    return invalidInput(operand.name, " is ", nameOf(buffer.kind), ", expected ",
                        nameOf(operand.kind));
  if (width != operand.width)
    return invalidInput(operand.name, " has width ", width, ", expected ", operand.width);
  if (buffer.group != operand.group)
    return invalidInput(operand.name, " has group ", buffer.group, ", expected ", operand.group);
  bool isRead = operand.access == Access::kRead || operand.access == Access::kUpdate;
  if (isRead && !states[size_t(operand.buffer)].hasValue)
    return invalidInput(operand.name, " is buffer ", operand.buffer,
                        ", which holds no value here: it was never written or was overwritten");
  return {};
}

Status BufferWalk::checkDisjoint(const Operand &a, const Operand &b, bool mayBeInPlace) const {
  const Buffer &first = program.buffers[size_t(a.buffer)];
  const Buffer &second = program.buffers[size_t(b.buffer)];
  if ((a.access == Access::kRead && b.access == Access::kRead) || !sharesBytes(first, second))
    return {};
  bool isInPlace = (a.access == Access::kRead || b.access == Access::kRead) &&
                   isSamePlace(first, second) && first.kind == second.kind;
  if (mayBeInPlace && isInPlace)
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

Status BufferWalk::apply(std::initializer_list<Operand> operands, bool mayBeInPlace) {
  for (const Operand &operand : operands)
    MOERT_RETURN_IF_ERROR(checkOperand(operand));
  for (const Operand *a = operands.begin(); a != operands.end(); ++a)
    for (const Operand *b = a + 1; b != operands.end(); ++b)
      MOERT_RETURN_IF_ERROR(checkDisjoint(*a, *b, mayBeInPlace));
  for (const Operand &operand : operands)
    if (operand.access != Access::kRead)
      write(operand.buffer, operand.access != Access::kScratch);
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
