// Attributes of the runtime's plain data: verifiers, text, and the module's plans.
#include "compiler/ir/PlanAttrs.h"

#include "compiler/ir/FieldAttrs.h"
#include "runtime/format/FieldCheck.h"
#include "runtime/format/Validate.h"

namespace mlir::moe {

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

LogicalResult PlanAttr::verify(EmitError emitError, moert::Plan plan) {
  const moert::Status status = moert::checkPlan(plan);
  return status.isOk() ? success()
                       : emitError() << "plan '" << plan.name << "': " << status.message();
}

Attribute PlanAttr::parse(AsmParser &parser, Type /*type*/) {
  return parseAttr<PlanAttr, moert::Plan>(parser);
}

void PlanAttr::print(AsmPrinter &printer) const {
  printFields(printer, getData());
}

LogicalResult MeasuredAttr::verify(EmitError emitError, moert::Measured measured) {
  const moert::Status status = moert::checkFields(measured);
  return status.isOk() ? success() : emitError() << "measured: " << status.message();
}

Attribute MeasuredAttr::parse(AsmParser &parser, Type /*type*/) {
  return parseAttr<MeasuredAttr, moert::Measured>(parser);
}

void MeasuredAttr::print(AsmPrinter &printer) const {
  printFields(printer, getData());
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
