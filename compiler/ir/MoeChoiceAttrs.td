// Attributes of the dialect `moe` for what was decided before the passes: how experts are quantized,
// and what an accuracy search measured.
#ifndef MOE_CHOICE_ATTRS
#define MOE_CHOICE_ATTRS

include "MoeAttrs.td"

def Moe_QuantizerAttr : Moe_Attr<"Quantizer", "quantizer"> {
  let summary = "How the experts' records are made from the checkpoint (moec::QuantizeMethod)";
  let description = [{
    The experts' grids have a scale, and with `offsets` an offset, for each `group` inputs; with `levels` codes of up to
    4 bits are non-linear (moert::CodeLevels), with `byteScales` scales have one byte, and with `hadamard` rows are
    transformed (#moe.format); `nested` as in moe-assign-bits. `calibration` is the path of the calibration profile that
    the method fits to, from which the artifact's trace and activation-path tables are made too; empty: none, and the
    method is nearest. The trace is cut as for `traceExpertBytes` of experts (moec::learn()) and holds, with calibration's
    own, the runs of tokens that a search for widths has read: `searchRuns`, hashes in ascending order (moec::SeenText).

    ```mlir
    #moe.quantizer<method = gptq, group = 32, nested = true, calibration = "qwen.profile",
                   traceExpertBytes = 3538944>
    ```
  }];
  let parameters = (ins EnumParameter<Moe_QuantizeMethod>:$method, "uint32_t":$group,
                        DefaultValuedParameter<"bool", "false">:$offsets,
                        DefaultValuedParameter<"bool", "false">:$levels,
                        DefaultValuedParameter<"bool", "false">:$byteScales,
                        DefaultValuedParameter<"bool", "false">:$hadamard,
                        DefaultValuedParameter<"bool", "false">:$nested,
                        StringRefParameter<"path of a calibration profile", [{""}]>:$calibration,
                        DefaultValuedParameter<"uint64_t", "0">:$traceExpertBytes,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$searchRuns);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_MeasuredTextAttr : Moe_Attr<"MeasuredText", "measured_text"> {
  let summary = "A text that was used when the widths were chosen (moert::MeasuredText)";
  let description = [{
    Numbers of a window, or points of an item, are f64.

    ```mlir
    #moe.measured_text<name = "a.txt", hash = 81985529216486895, bytes = 4096, windows = [0, 3],
                       referenceNats = [310.25, 298.5]>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$name, "uint64_t":$hash, "uint64_t":$bytes,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$windows,
                        OptionalParameter<"::mlir::ArrayAttr">:$referenceNats,
                        OptionalParameter<"::mlir::ArrayAttr">:$referencePoints,
                        OptionalParameter<"::mlir::FloatAttr">:$loss,
                        DefaultValuedParameter<"uint64_t", "0">:$units,
                        OptionalParameter<"::mlir::FloatAttr">:$unitSpread);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_MeasuredCandidateAttr : Moe_Attr<"MeasuredCandidate", "measured_candidate"> {
  let summary = "Widths that a search measured (moert::MeasuredCandidate)";
  let description = [{
    ```mlir
    #moe.measured_candidate<solver = "mckp", expertBytes = 4096, residentBytes = 512, klNats = 0.02,
                            loss = 0.0171, expectedBound = 0.0199, tokenNs = 1.25e+06, isChosen = true>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$solver, "uint64_t":$expertBytes, "uint64_t":$residentBytes,
                        "::mlir::FloatAttr":$klNats, OptionalParameter<"::mlir::FloatAttr">:$loss,
                        OptionalParameter<"::mlir::FloatAttr">:$expectedBound,
                        OptionalParameter<"::mlir::FloatAttr">:$tokenNs,
                        DefaultValuedParameter<"bool", "false">:$isChosen);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_MeasuredAttr : Moe_Attr<"Measured", "measured"> {
  let summary = "Measurements made when an accuracy target chose the widths (moert::Measured)";
  let description = [{
    `itemOptions` holds option and value in turn; `quantile` is that of #moe.plan_loss.

    ```mlir
    #moe.measured<metric = "perplexity", target = 2.0e-02, loss = 1.5e-02, upperBound = 1.75e-02,
                  klNats = 0.01, topDisagreement = 0.05, confidence = 0.96, units = 90, documents = 120,
                  unitSpread = 0.125, isSetAside = false, windowTokens = 128, solver = "greedy",
                  quantizer = "gptq", measurements = 12, windowsEvaluated = 900,
                  calibrationTokens = 2048, calibrationTexts = [#moe.measured_text<...>],
                  acceptanceTexts = [#moe.measured_text<...>]>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$metric, "::mlir::FloatAttr":$target,
                        "::mlir::FloatAttr":$loss, "::mlir::FloatAttr":$upperBound,
                        "::mlir::FloatAttr":$klNats, "::mlir::FloatAttr":$topDisagreement,
                        "::mlir::FloatAttr":$confidence, "uint64_t":$units, "uint64_t":$documents,
                        "::mlir::FloatAttr":$unitSpread, "bool":$isSetAside,
                        "uint32_t":$windowTokens, StringRefParameter<>:$solver,
                        StringRefParameter<>:$quantizer, "uint32_t":$measurements,
                        "uint64_t":$windowsEvaluated, "uint64_t":$calibrationTokens,
                        OptionalParameter<"::mlir::ArrayAttr">:$calibrationTexts,
                        OptionalParameter<"::mlir::ArrayAttr">:$acceptanceTexts,
                        OptionalParameter<"::mlir::ArrayAttr">:$itemOptions,
                        OptionalParameter<"::mlir::ArrayAttr">:$candidates,
                        OptionalParameter<"::mlir::ArrayAttr">:$quantile);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // MOE_CHOICE_ATTRS
