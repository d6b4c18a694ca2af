#include "runtime/base/Checksum.h"

#include <doctest/doctest.h>
#include <string_view>
#include <vector>

using namespace moert;

static std::vector<std::byte> countingBytes(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = std::byte(i * 7 + i / 256);
  return bytes;
}

TEST_CASE("the checksum is XXH3 with 64 bits and seed 0") {
  std::string_view text = "xyz"; // Expected: what libxxhash 0.8.1 gives.
  CHECK(checksum64(std::as_bytes(std::span(text))) == 0x6276d2656f411f1f);
  CHECK(checksum64(std::span<const std::byte>()) == 0x2d06800538d394c2);
}

TEST_CASE("a checksum from parts equals the one from the whole") {
  std::vector<std::byte> bytes = countingBytes(5000);
  ChecksumStream stream;
  stream.update(std::span(bytes).first(1));
  stream.update(std::span(bytes).subspan(1, 3000));
  stream.update(std::span(bytes).subspan(3001));
  CHECK(stream.digest() == checksum64(bytes));
}

TEST_CASE("a checksum across scattered pages equals the one of contiguous bytes") {
  std::vector<std::byte> bytes = countingBytes(3 * 1024);
  const std::byte *pages[] = {bytes.data(), bytes.data() + 2048, bytes.data() + 1024};
  std::vector<std::byte> expected(bytes.begin(), bytes.begin() + 1024);
  expected.insert(expected.end(), bytes.begin() + 2048, bytes.end());
  expected.insert(expected.end(), bytes.begin() + 1024, bytes.begin() + 1524);
  PagedBytes view{pages, 10, 0};
  CHECK(checksum64(view, 2548) == checksum64(expected));
  CHECK(checksum64(view.from(100), 2448) == checksum64(std::span(expected).subspan(100)));
}

TEST_CASE("a view of contiguous memory is a view with one page") {
  std::vector<std::byte> bytes = countingBytes(9000);
  const std::byte *start = bytes.data();
  PagedBytes view = PagedBytes::contiguous(&start);
  CHECK(view.at(8999) == start + 8999);
  CHECK(checksum64(view, bytes.size()) == checksum64(bytes));
}

TEST_CASE("a checksum is spelled with all of its 16 digits") {
  CHECK(formatChecksum(0) == "0000000000000000");
  CHECK(formatChecksum(0x00123456789abcde) == "00123456789abcde");
  CHECK(formatChecksum(UINT64_MAX) == "ffffffffffffffff");
}

TEST_CASE("a checksum reads back, and nothing else that is spelled nearly so") {
  for (uint64_t checksum : {uint64_t(0), uint64_t(0x00123456789abcde), UINT64_MAX})
    CHECK(parseChecksum(formatChecksum(checksum)) == checksum);
  for (const char *word :
       {"", "0", "00123456789abcd", "00123456789abcdef", "00123456789ABCDE", "00123456789abcdg",
        "-0123456789abcde", " 0123456789abcde", "0123456789abcde ", "ffffffffffffffffffff"})
    CHECK_MESSAGE(!parseChecksum(word), word);
}
