// What a full disk does, without one.
#pragma once

#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <sys/resource.h>

/// No file of this process grows beyond so many bytes while it lives, as on a full disk.
class FileSizeLimit {
public:
  explicit FileSizeLimit(uint64_t bytes) : signalBefore(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit limit = {bytes, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, signalBefore);
  }
  FileSizeLimit(const FileSizeLimit &) = delete;
  FileSizeLimit &operator=(const FileSizeLimit &) = delete;

private:
  rlimit before;
  void (*signalBefore)(int);
};
