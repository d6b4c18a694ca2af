// A valid calibration profile of 5 MoE layers, as data and as a file in memory; tests break one
// thing in it at a time.
#pragma once

#include "compiler/profile/ProfileWriter.h"

#include <cstddef>
#include <string>
#include <vector>

/// Two texts, three windows of 4 tokens, a hidden size of 24; the layers have 6 experts, of which
/// each token uses 2; the last layer has 3, of which it uses 1. Without counts: the writer computes
/// them.
moec::CalibrationInfo tinyProfileInfo();

/// Rows of a layer, some of them large, small or zero.
std::vector<float> tinyRows(const moec::CalibrationInfo &info, size_t moeLayer);
moec::LayerTrace tinyTrace(const moec::CalibrationInfo &info, size_t moeLayer);
moec::Moments tinyMoments(const moec::CalibrationInfo &info, size_t input);

/// Writes the moments of the resident inputs of layers before `layer` that are not written yet.
moert::Status writeTinyInputs(const moec::CalibrationInfo &info, uint64_t layer,
                              moec::ProfileWriter &writer);

/// Written through a temporary file in the current directory.
std::vector<std::byte> tinyProfile();

/// Recomputes the checksums of the first page and of the header after a change to a profile's
/// bytes, so that the checks after them are reached.
void repairProfileChecksums(std::vector<std::byte> &file);

std::vector<std::byte> bytesOfFile(const std::string &path);
