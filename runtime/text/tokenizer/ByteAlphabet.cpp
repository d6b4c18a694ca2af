#include "runtime/text/tokenizer/ByteAlphabet.h"

#include <array>

namespace moert {
namespace {

constexpr bool standsForItself(uint32_t value) {
  return (value >= 0x21 && value <= 0x7E) || (value >= 0xA1 && value <= 0xAC) ||
         (value >= 0xAE && value <= 0xFF);
}

constexpr uint32_t kAlphabetEnd = 0x100 + 68;

constexpr std::array<uint16_t, 256> makeAlphabet() {
  std::array<uint16_t, 256> alphabet{};
  uint16_t next = 0x100;
  for (uint16_t byte = 0; byte < 256; ++byte)
    alphabet[byte] = standsForItself(byte) ? byte : next++;
  return alphabet;
}

constexpr std::array<uint16_t, 256> kAlphabet = makeAlphabet();

// The inverse of kAlphabet; 0xFFFF for characters outside it.
constexpr std::array<uint16_t, kAlphabetEnd> makeBytes() {
  std::array<uint16_t, kAlphabetEnd> bytes{};
  for (uint16_t &byte : bytes)
    byte = 0xFFFF;
  for (uint16_t byte = 0; byte < 256; ++byte)
    bytes[kAlphabet[byte]] = byte;
  return bytes;
}

constexpr std::array<uint16_t, kAlphabetEnd> kBytes = makeBytes();

} // namespace

uint32_t byteToAlphabet(unsigned char byte) {
  return kAlphabet[byte];
}

std::optional<unsigned char> alphabetToByte(uint32_t codePoint) {
  if (codePoint >= kAlphabetEnd || kBytes[codePoint] == 0xFFFF)
    return std::nullopt;
  return static_cast<unsigned char>(kBytes[codePoint]);
}

void appendByteAlphabet(std::string_view text, std::string &out) {
  for (char byte : text)
    appendCodePoint(kAlphabet[static_cast<unsigned char>(byte)], out);
}

} // namespace moert
