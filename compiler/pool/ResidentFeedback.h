// Error feedback of resident matrices from a calibration profile: the factors of each input, made
// when the emission reaches its first matrix.
#pragma once

#include "compiler/emit/RecordSource.h"
#include "compiler/profile/CalibrationProfile.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace moec {

/// Borrows the profile. The last few factors are kept: matrices of one input follow one another in
/// an artifact, and several threads quantize parts of them.
class ResidentFeedback final : public FeedbackSource {
public:
  explicit ResidentFeedback(const CalibrationProfile &calibration);

  moert::Result<std::shared_ptr<const Feedback>> feedbackFor(const std::string &weight,
                                                             bool hasHadamard) const override;
  uint64_t fingerprint() const override;

private:
  struct Made {
    size_t input = 0;
    bool hasHadamard = false;
    std::shared_ptr<const Feedback> feedback;
  };

  const CalibrationProfile &profile;
  std::map<std::string, size_t> inputOf; // By weight.
  mutable std::mutex mutex;              // Protects `made`, and is held while factors are made.
  mutable std::vector<Made> made;        // The newest last.
};

} // namespace moec
