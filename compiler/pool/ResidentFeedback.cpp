#include "compiler/pool/ResidentFeedback.h"

#include "compiler/profile/ProfileHeader.h"
#include "compiler/quantize/FittedMatrix.h"
#include "runtime/base/Checksum.h"

#include <algorithm>
#include <utility>

using namespace moert;

namespace moec {

// Matrices of two inputs can be in work at a time: the end of one and the beginning of the next.
static constexpr size_t kKept = 2;

ResidentFeedback::ResidentFeedback(const CalibrationProfile &calibration) : profile(calibration) {
  const auto &inputs = profile.info().residentInputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    for (const std::string &weight : inputs[i].weights)
      inputOf.emplace(weight, i);
}

Result<std::shared_ptr<const Feedback>> ResidentFeedback::feedbackFor(const std::string &weight,
                                                                      bool hasHadamard) const {
  const auto input = inputOf.find(weight);
  if (input == inputOf.end())
    return std::shared_ptr<const Feedback>();
  const std::scoped_lock lock(mutex);
  const auto known = std::ranges::find_if(made, [&](const Made &each) {
    return each.input == input->second && each.hasHadamard == hasHadamard;
  });
  if (known != made.end())
    return known->feedback;
  MOERT_ASSIGN_OR_RETURN(Moments moments, profile.residentMoments(input->second));
  const double trust = trustIn(moments.cols, moments.weight);
  auto feedback =
      fittedFeedback(shrinkToDiagonal(std::move(moments), trust), hasHadamard, bestIsa());
  if (!feedback.isOk())
    return feedback.status().withContext(strCat("the inputs of ", weight));
  if (made.size() == kKept)
    made.erase(made.begin());
  made.push_back(
      {input->second, hasHadamard, std::make_shared<const Feedback>(std::move(feedback).value())});
  return made.back().feedback;
}

uint64_t ResidentFeedback::fingerprint() const {
  const CalibrationInfo &info = profile.info();
  ProfileHeader header{info, {}, {}};
  header.checksums.resize(info.moeLayers.size());
  header.inputChecksums.resize(info.residentInputs.size());
  return checksum64(encodeProfileHeader(header));
}

} // namespace moec
