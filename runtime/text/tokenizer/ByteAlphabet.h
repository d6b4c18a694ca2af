// GPT-2's printable characters for the 256 byte values: 21-7E, A1-AC and AE-FF map to themselves,
// the other 68 bytes, in ascending order, to U+0100 and up. Byte-level vocabularies are written in
// this alphabet.
#pragma once

#include "runtime/base/Utf8.h"

#include <optional>

namespace moert {

/// The character for a byte, 0x21 to 0x143.
uint32_t byteToAlphabet(unsigned char byte);

/// The byte for a character, if it is in the alphabet.
std::optional<unsigned char> alphabetToByte(uint32_t codePoint);

/// Appends the characters for all bytes of text.
void appendByteAlphabet(std::string_view text, std::string &out);

} // namespace moert
