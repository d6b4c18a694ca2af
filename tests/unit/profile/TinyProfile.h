// A whole calibration profile of 5 MoE layers that passes every rule, as data and as a file in
// memory; tests break one thing in it at a time.
#pragma once

#include "compiler/profile/CalibrationProfile.h"

#include <cstddef>
#include <string>
#include <vector>

/// Two texts, three windows of 4 tokens, a hidden size of 24; the layers have 6 experts, of which
/// each token takes 2, the last layer 3 and 1. No counts: the writer works them out.
moec::CalibrationInfo tinyProfileInfo();

/// Rows of a layer, some of them large, small or zero.
std::vector<float> tinyRows(const moec::CalibrationInfo &info, size_t moeLayer);
moec::LayerTrace tinyTrace(const moec::CalibrationInfo &info, size_t moeLayer);

/// Written through a file in the current directory, which is gone again.
std::vector<std::byte> tinyProfile();

/// A profile in memory after a change to its bytes: the checksums of its first page and its header
/// are made right again, so that the rules behind them are reached.
void repairProfileChecksums(std::vector<std::byte> &file);

std::vector<std::byte> bytesOfFile(const std::string &path);
