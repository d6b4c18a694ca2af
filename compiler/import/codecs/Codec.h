// The codecs of quantized checkpoints. A codec recognizes the stored tensors that hold a weight's
// codes, and describes the weight under its plain name, as if it were stored in f32. The
// quantizer's name in config.json chooses the codec; the stored names and types decide which
// weights are coded, so that modules excluded from quantization are read plainly.
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/StoredTensors.h"
#include "compiler/import/codecs/CodedWeight.h"
#include "runtime/base/Status.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Constant after construction; any thread may use it.
class WeightCodec {
public:
  virtual ~WeightCodec() = default;

  /// The method and every parameter that changes values: "fp8, blocks of 128 x 128".
  virtual std::string text() const = 0;

  /// The plain name of the weight whose codes this tensor holds; nullopt for any other tensor.
  virtual std::optional<std::string> plainName(const StoredTensor &stored) const = 0;

  /// The names of all tensors that belong to a coded weight besides its codes, whether they are
  /// needed for its values or not (scales of activations are not).
  virtual std::vector<std::string> companions(std::string_view plainName) const = 0;

  /// The type that holds the values of every weight that it codes exactly, where the config alone
  /// decides that.
  virtual std::optional<StoredType> exactType() const { return std::nullopt; }

  /// Checks types and shapes of the weight's tensors. `codes` has this plain name.
  virtual moert::Result<CodedWeight> describe(const StoredTensors &stored,
                                              const TensorLocation &codes,
                                              std::string_view plainName) const = 0;
};

/// The codec of config.json's quantization_config, wherever the file has it; null without one.
/// Refuses unknown methods and parameters with the list of those that are read.
moert::Result<std::unique_ptr<WeightCodec>> readCodec(const ConfigObject &config);
/// The same; without a quantization_config, that of the directory's hf_quant_config.json, which
/// ModelOpt's first releases wrote instead.
moert::Result<std::unique_ptr<WeightCodec>> readCodec(const ConfigObject &config,
                                                      const std::string &directory);

/// One per method: reads the method's parameters from quantization_config.
moert::Result<std::unique_ptr<WeightCodec>> makeFp8Codec(const ConfigObject &quantization);
moert::Result<std::unique_ptr<WeightCodec>> makeMxfp4Codec(const ConfigObject &quantization);
moert::Result<std::unique_ptr<WeightCodec>>
makeCompressedTensorsCodec(const ConfigObject &quantization);
moert::Result<std::unique_ptr<WeightCodec>> makeGptqCodec(const ConfigObject &quantization);
moert::Result<std::unique_ptr<WeightCodec>> makeAwqCodec(const ConfigObject &quantization);
moert::Result<std::unique_ptr<WeightCodec>> makeAutoRoundCodec(const ConfigObject &quantization);
moert::Result<std::unique_ptr<WeightCodec>> makeModelOptCodec(const ConfigObject &quantization);

/// Weights of Swin-MoE that are computed from stored ones (SwinWeights.cpp).
moert::Result<std::unique_ptr<WeightCodec>> makeSwinCodec(const ConfigObject &config);

/// How many weights share a scale; 0: all rows or all columns.
struct ScaleBlock {
  uint64_t rows = 0, cols = 0;
  bool operator==(const ScaleBlock &) const = default;
};

struct GptqLayout {
  uint64_t group = 0; // Inputs per group; 0: all.
  bool isReordered = false;
  bool isFirstVersion = true; // Zero points are stored less one.
};

/// Formats that several methods share. A block of {0, 0} means a scale per tensor or per row.
std::unique_ptr<WeightCodec> makeGptqCodec(const GptqLayout &layout);
std::unique_ptr<WeightCodec> makeAwqCodec(uint64_t group);
std::unique_ptr<WeightCodec> makeFp8Codec(const ScaleBlock &block);
enum class Nvfp4Names { kModelOpt, kCompressedTensors };
inline constexpr uint32_t kNvfp4Group = 16; // Inputs that share a scale.
std::unique_ptr<WeightCodec> makeNvfp4Codec(Nvfp4Names naming);

/// Weights of one checkpoint in several formats, at least one; of equal formats, one is kept. A
/// weight has the format whose types and shapes it is stored in.
std::unique_ptr<WeightCodec> makeMixedCodec(std::vector<std::unique_ptr<WeightCodec>> parts);

} // namespace moec
