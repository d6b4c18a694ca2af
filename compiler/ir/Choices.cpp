// Verifiers of the attributes of choices, and their conversion from and to plain data.
#include "compiler/ir/Choices.h"

#include "compiler/ir/PlanAttrs.h"

namespace mlir::moe {

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult QuantizerAttr::verify(EmitError emitError, QuantizeMethod method, uint32_t group,
                                    bool offsets, bool levels, bool byteScales, bool /*hadamard*/,
                                    bool /*nested*/, StringRef calibration,
                                    uint64_t /*traceExpertBytes*/,
                                    DenseI64ArrayAttr /*searchRuns*/) {
  if (group == 0)
    return emitError() << "a quantizer with groups of 0 inputs, expected at least 1";
  if (offsets && levels)
    return emitError() << "a quantizer with offsets and levels, expected at most one of them";
  if (offsets && byteScales)
    return emitError() << "a quantizer with offsets and byte scales, expected at most one of them";
  if (method != QuantizeMethod::kNearest && calibration.empty())
    return emitError() << "quantizer " << stringifyQuantizeMethod(method)
                       << " without a calibration profile, to which it fits";
  return success();
}

static bool areNumbers(ArrayAttr array) {
  return !array || llvm::all_of(array, [](Attribute each) {
    auto number = dyn_cast<FloatAttr>(each);
    return number && number.getType().isF64();
  });
}

/// Absent numbers are none.
static bool areFinite(ArrayRef<FloatAttr> numbers) {
  return llvm::all_of(numbers, [](FloatAttr number) {
    return !number || (number.getType().isF64() && number.getValue().isFinite());
  });
}

LogicalResult MeasuredTextAttr::verify(EmitError emitError, StringRef name, uint64_t /*hash*/,
                                       uint64_t /*bytes*/, DenseI64ArrayAttr windows,
                                       ArrayAttr referenceNats, ArrayAttr referencePoints,
                                       FloatAttr loss, uint64_t /*units*/, FloatAttr unitSpread) {
  if (!areFinite({loss, unitSpread}))
    return emitError() << "text '" << name << "' expected a finite f64 loss and spread";
  if (!areNumbers(referenceNats) || !areNumbers(referencePoints))
    return emitError() << "text '" << name << "' expected f64 numbers of the reference";
  if (windows && llvm::any_of(windows.asArrayRef(),
                              [](int64_t window) { return window < 0 || window > UINT32_MAX; }))
    return emitError() << "text '" << name << "' expected windows of 32 bits";
  return success();
}

LogicalResult MeasuredCandidateAttr::verify(EmitError emitError, StringRef solver,
                                            uint64_t /*expertBytes*/, uint64_t /*residentBytes*/,
                                            FloatAttr klNats, FloatAttr loss,
                                            FloatAttr expectedBound, FloatAttr tokenNs,
                                            bool /*isChosen*/) {
  if (!areFinite({klNats, loss, expectedBound, tokenNs}))
    return emitError() << "a candidate of '" << solver << "' expected finite f64 numbers";
  return success();
}

LogicalResult MeasuredAttr::verify(
    EmitError emitError, StringRef metric, FloatAttr target, FloatAttr loss, FloatAttr upperBound,
    FloatAttr klNats, FloatAttr topDisagreement, FloatAttr confidence, uint64_t /*units*/,
    uint64_t /*documents*/, FloatAttr unitSpread, bool /*isSetAside*/, uint32_t /*windowTokens*/,
    StringRef /*solver*/, StringRef /*quantizer*/, uint32_t /*measurements*/,
    uint64_t /*windowsEvaluated*/, uint64_t /*calibrationTokens*/, ArrayAttr calibrationTexts,
    ArrayAttr acceptanceTexts, ArrayAttr itemOptions, ArrayAttr candidates, ArrayAttr quantile) {
  for (FloatAttr number :
       {target, loss, upperBound, klNats, topDisagreement, confidence, unitSpread})
    if (!areFinite({number}))
      return emitError() << "a measurement of '" << metric << "' with " << number
                         << ", expected finite f64 numbers";
  if (!isQuantile(quantile))
    return emitError() << "a measurement of '" << metric
                       << "' expected a quantile of two or three finite numbers";
  if (candidates && !llvm::all_of(candidates, llvm::IsaPred<MeasuredCandidateAttr>))
    return emitError() << "a measurement of '" << metric
                       << "' expected candidates as an array of #moe.measured_candidate";
  for (ArrayAttr texts : {calibrationTexts, acceptanceTexts})
    if (texts && !llvm::all_of(texts, llvm::IsaPred<MeasuredTextAttr>))
      return emitError() << "a measurement of '" << metric
                         << "' expected texts as arrays of #moe.measured_text";
  if (itemOptions &&
      (itemOptions.size() % 2 != 0 || !llvm::all_of(itemOptions, llvm::IsaPred<StringAttr>)))
    return emitError() << "a measurement of '" << metric
                       << "' expected itemOptions as strings, option and value in turn";
  return success();
}

//===----------------------------------------------------------------------===//
// From plain data
//===----------------------------------------------------------------------===//

namespace {

/// An empty list becomes an absent attribute.
struct MeasuredAttrs {
  MLIRContext *context;

  FloatAttr number(double value) const { return FloatAttr::get(Float64Type::get(context), value); }
  ArrayAttr array(ArrayRef<Attribute> all) const {
    return all.empty() ? ArrayAttr() : ArrayAttr::get(context, all);
  }
  FloatAttr optional(const std::optional<double> &value) const {
    return value ? number(*value) : FloatAttr();
  }
  ArrayAttr numbers(const std::vector<double> &from) const {
    SmallVector<Attribute> all;
    for (double value : from)
      all.push_back(number(value));
    return array(all);
  }
  ArrayAttr texts(const std::vector<moert::MeasuredText> &from) const {
    SmallVector<Attribute> all;
    for (const moert::MeasuredText &text : from) {
      const SmallVector<int64_t> windows(text.windows.begin(), text.windows.end());
      all.push_back(MeasuredTextAttr::get(
          context, text.name, text.hash, text.bytes,
          windows.empty() ? DenseI64ArrayAttr() : DenseI64ArrayAttr::get(context, windows),
          numbers(text.referenceNats), numbers(text.referencePoints), optional(text.loss),
          text.units, optional(text.unitSpread)));
    }
    return array(all);
  }
  ArrayAttr candidates(const std::vector<moert::MeasuredCandidate> &from) const {
    SmallVector<Attribute> all;
    for (const moert::MeasuredCandidate &each : from)
      all.push_back(MeasuredCandidateAttr::get(context, each.solver, each.expertBytes,
                                               each.residentBytes, number(each.klNats),
                                               optional(each.loss), optional(each.expectedBound),
                                               optional(each.tokenNs), each.isChosen));
    return array(all);
  }
  ArrayAttr options(const std::vector<std::pair<std::string, std::string>> &from) const {
    SmallVector<Attribute> all;
    for (const auto &[option, value] : from)
      all.append({StringAttr::get(context, option), StringAttr::get(context, value)});
    return array(all);
  }
  MeasuredAttr measured(const moert::Measured &from) const {
    return MeasuredAttr::get(
        context, from.metric, number(from.target), number(from.loss), number(from.upperBound),
        number(from.klNats), number(from.topDisagreement), number(from.confidence), from.units,
        from.documents, number(from.unitSpread), from.isSetAside, from.windowTokens, from.solver,
        from.quantizer, from.measurements, from.windowsEvaluated, from.calibrationTokens,
        texts(from.calibrationTexts), texts(from.acceptanceTexts), options(from.itemOptions),
        candidates(from.candidates), toQuantileAttr(context, from.quantile));
  }
};

} // namespace

static QuantizerAttr toQuantizerAttr(MLIRContext *context, const Quantizer &from) {
  const SmallVector<int64_t> runs(from.searchRuns.begin(), from.searchRuns.end());
  return QuantizerAttr::get(
      context, from.method, from.group, from.hasOffsets, from.hasLevels, from.hasByteScales,
      from.hasHadamard, from.isNested, from.calibration, from.traceExpertBytes,
      runs.empty() ? DenseI64ArrayAttr() : DenseI64ArrayAttr::get(context, runs));
}

void choose(ModuleOp module, const Choices &choices) {
  MLIRContext *context = module.getContext();
  if (choices.quantizer)
    module->setAttr(kQuantizerAttr, toQuantizerAttr(context, *choices.quantizer));
  if (choices.measured)
    module->setAttr(kMeasuredAttr, MeasuredAttrs{context}.measured(*choices.measured));
  if (!choices.widthsBy.empty())
    module->setAttr(kWidthsByAttr, StringAttr::get(context, choices.widthsBy));
  if (!choices.expertBits.empty())
    for (auto [layer, bits] : llvm::zip_equal(module.getOps<MoeLayerOp>(), choices.expertBits))
      layer.setBits(bits);
  if (!choices.expertDownBits.empty())
    for (auto [layer, bits] : llvm::zip_equal(module.getOps<MoeLayerOp>(), choices.expertDownBits))
      layer.setDownBits(bits);
  for (const auto &[symbol, bits] : choices.residentBits)
    module.lookupSymbol<WeightOp>(symbol).setBits(bits);
}

//===----------------------------------------------------------------------===//
// To plain data
//===----------------------------------------------------------------------===//

Quantizer quantizerOf(ModuleOp module) {
  auto from = module->getAttrOfType<QuantizerAttr>(kQuantizerAttr);
  if (!from)
    return {};
  Quantizer quantizer = {
      from.getMethod(),          from.getGroup(),    from.getOffsets(), from.getLevels(),
      from.getByteScales(),      from.getHadamard(), from.getNested(),  from.getCalibration().str(),
      from.getTraceExpertBytes()};
  if (DenseI64ArrayAttr runs = from.getSearchRuns())
    quantizer.searchRuns.assign(runs.asArrayRef().begin(), runs.asArrayRef().end());
  return quantizer;
}

static std::vector<double> toNumbers(ArrayAttr from) {
  std::vector<double> numbers;
  if (from)
    for (auto number : from.getAsRange<FloatAttr>())
      numbers.push_back(number.getValueAsDouble());
  return numbers;
}

static std::optional<double> toOptional(FloatAttr from) {
  return from ? std::optional(from.getValueAsDouble()) : std::nullopt;
}

static std::vector<moert::MeasuredText> toTexts(ArrayAttr from) {
  std::vector<moert::MeasuredText> texts;
  if (!from)
    return texts;
  for (auto each : from.getAsRange<MeasuredTextAttr>()) {
    moert::MeasuredText &text = texts.emplace_back();
    text.name = each.getName().str();
    text.hash = each.getHash();
    text.bytes = each.getBytes();
    if (DenseI64ArrayAttr windows = each.getWindows())
      for (int64_t window : windows.asArrayRef())
        text.windows.push_back(static_cast<uint32_t>(window));
    text.referenceNats = toNumbers(each.getReferenceNats());
    text.referencePoints = toNumbers(each.getReferencePoints());
    text.loss = toOptional(each.getLoss());
    text.units = each.getUnits();
    text.unitSpread = toOptional(each.getUnitSpread());
  }
  return texts;
}

static std::vector<moert::MeasuredCandidate> toCandidates(ArrayAttr from) {
  std::vector<moert::MeasuredCandidate> candidates;
  if (!from)
    return candidates;
  for (auto each : from.getAsRange<MeasuredCandidateAttr>())
    candidates.push_back({each.getSolver().str(), each.getExpertBytes(), each.getResidentBytes(),
                          each.getKlNats().getValueAsDouble(), toOptional(each.getLoss()),
                          toOptional(each.getExpectedBound()), toOptional(each.getTokenNs()),
                          each.getIsChosen()});
  return candidates;
}

std::optional<moert::Measured> measuredOf(ModuleOp module) {
  auto from = module->getAttrOfType<MeasuredAttr>(kMeasuredAttr);
  if (!from)
    return std::nullopt;
  moert::Measured measured;
  measured.metric = from.getMetric().str();
  measured.target = from.getTarget().getValueAsDouble();
  measured.loss = from.getLoss().getValueAsDouble();
  measured.upperBound = from.getUpperBound().getValueAsDouble();
  measured.klNats = from.getKlNats().getValueAsDouble();
  measured.topDisagreement = from.getTopDisagreement().getValueAsDouble();
  measured.confidence = from.getConfidence().getValueAsDouble();
  measured.units = from.getUnits();
  measured.documents = from.getDocuments();
  measured.unitSpread = from.getUnitSpread().getValueAsDouble();
  measured.isSetAside = from.getIsSetAside();
  measured.windowTokens = from.getWindowTokens();
  measured.solver = from.getSolver().str();
  measured.quantizer = from.getQuantizer().str();
  measured.measurements = from.getMeasurements();
  measured.windowsEvaluated = from.getWindowsEvaluated();
  measured.calibrationTokens = from.getCalibrationTokens();
  measured.calibrationTexts = toTexts(from.getCalibrationTexts());
  measured.acceptanceTexts = toTexts(from.getAcceptanceTexts());
  measured.candidates = toCandidates(from.getCandidates());
  measured.quantile = toQuantile(from.getQuantile());
  if (ArrayAttr options = from.getItemOptions())
    for (size_t i = 0; i < options.size(); i += 2)
      measured.itemOptions.emplace_back(cast<StringAttr>(options[i]).str(),
                                        cast<StringAttr>(options[i + 1]).str());
  return measured;
}

} // namespace mlir::moe
