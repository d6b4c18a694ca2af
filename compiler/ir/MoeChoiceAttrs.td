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

def Moe_MeasuredAttr : Moe_DataAttr<"Measured", "measured"> {
  let summary = "Measurements made when an accuracy target chose the widths (moert::Measured)";
  let description = [{
    runtime/format/Artifact.h documents the fields.

    ```mlir
    #moe.measured<metric = "perplexity", target = 2.0e-02, loss = 1.5e-02, upperBound = 1.75e-02,
                  klNats = 0.01, topDisagreement = 0.05, confidence = 0.96, units = 90, documents = 120,
                  unitSpread = 0.125, windowTokens = 128, solver = "greedy", quantizer = "gptq",
                  calibrationTexts = [<name = "b.txt", hash = 7, bytes = 64>],
                  acceptanceTexts = [<name = "a.txt", hash = 81985529216486895, bytes = 4096,
                                      windows = [0, 3], referenceNats = [310.25, 298.5]>],
                  candidates = [<solver = "mckp", expertBytes = 4096, residentBytes = 512, klNats = 0.02>]>
    ```
  }];
}

def Moe_QuickLossAttr : Moe_DataAttr<"QuickLoss", "quick_loss"> {
  let summary = "What the artifact lost on text that the checkpoint wrote (moert::QuickLoss)";
  let description = [{
    ```mlir
    #moe.quick_loss<loss = 1.5e-02, klNats = 0.01, topDisagreement = 0.05, windows = 8, windowTokens = 512>
    ```
  }];
}

#endif // MOE_CHOICE_ATTRS
