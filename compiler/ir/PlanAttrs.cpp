// Verifiers of the attributes of the runtime's plain data, and the module's plans.
#include "compiler/ir/PlanAttrs.h"

#include "runtime/format/FieldCheck.h"
#include "runtime/format/Validate.h"

namespace mlir::moe {

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

LogicalResult PlanAttr::verify(EmitError emitError, moert::Plan plan) {
  const moert::Status status = moert::checkPlan(plan);
  return status.isOk() ? success()
                       : emitError() << "plan '" << plan.name << "': " << status.message();
}

static LogicalResult verifyRules(EmitError emitError, StringRef name, const moert::Status &status) {
  return status.isOk() ? success() : emitError() << name << ": " << status.message();
}

LogicalResult MeasuredAttr::verify(EmitError emitError, moert::Measured data) {
  return verifyRules(emitError, getMnemonic(), moert::checkFields(data));
}

LogicalResult QuickLossAttr::verify(EmitError emitError, moert::QuickLoss data) {
  return verifyRules(emitError, getMnemonic(), moert::checkFields(data));
}

LogicalResult ChatAttr::verify(EmitError emitError, moert::Chat data) {
  return verifyRules(emitError, getMnemonic(), moert::validateChat(data));
}

LogicalResult SamplingDefaultsAttr::verify(EmitError emitError, moert::SamplingDefaults data) {
  return verifyRules(emitError, getMnemonic(), moert::validateSampling(data));
}

std::vector<moert::Plan> plansOf(ModuleOp module) {
  std::vector<moert::Plan> plans;
  if (auto attributes = module->getAttrOfType<ArrayAttr>(kPlansAttr))
    for (auto plan : attributes.getAsRange<PlanAttr>())
      plans.push_back(plan.getData());
  return plans;
}

void setPlans(ModuleOp module, const std::vector<moert::Plan> &plans) {
  SmallVector<Attribute> attributes;
  for (const moert::Plan &plan : plans)
    attributes.push_back(PlanAttr::get(module.getContext(), plan));
  module->setAttr(kPlansAttr, ArrayAttr::get(module.getContext(), attributes));
}

} // namespace mlir::moe
