// GPT-2's printable stand-ins for the 256 byte values: 21-7E, A1-AC and AE-FF stand for themselves,
// the other 68 bytes, in ascending order, for U+0100 and up. Byte-level vocabularies are written in
// it.
#pragma once

#include "runtime/base/Utf8.h"

#include <optional>

namespace moert {

/// The character that stands for a byte, 0x21 to 0x143.
uint32_t byteToAlphabet(unsigned char byte);

/// The byte that a character stands for, if any.
std::optional<unsigned char> alphabetToByte(uint32_t codePoint);

/// Appends the stand-ins of all bytes of text.
void appendByteAlphabet(std::string_view text, std::string &out);

} // namespace moert
