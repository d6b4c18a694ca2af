// Prints the ODS of the dialect's instructions: one op per instruction of
// runtime/format/Instruction.h in value form, with the fields of its declaration under the same
// names. A buffer that is read is an operand, one that is written a result, and one that is updated
// both; scratch belongs to moe-bufferize. Every other field is an attribute, which may be absent
// where it has its default. From the roles follow the op's effects.
#include "runtime/format/Instruction.h"

#include <cstdio>
#include <string>

using namespace moert;

namespace {

template <typename Enum> constexpr const char *kEnumName = Enum::kNotSpecialized;
template <> constexpr const char *kEnumName<Activation> = "Activation";
template <> constexpr const char *kEnumName<AttendedRange> = "AttendedRange";
template <> constexpr const char *kEnumName<CapacityKind> = "CapacityKind";
template <> constexpr const char *kEnumName<GateKind> = "GateKind";
template <> constexpr const char *kEnumName<GroupScore> = "GroupScore";
template <> constexpr const char *kEnumName<NormKind> = "NormKind";
template <> constexpr const char *kEnumName<ProductRole> = "ProductRole";
template <> constexpr const char *kEnumName<RouterScoring> = "RouterScoring";
template <> constexpr const char *kEnumName<RowFunction> = "RowFunction";

struct Definition {
  std::string arguments, results, format;
  bool hasSlot = false, hasState = false, hasKey = false;

  template <typename T> void add(FieldRole role, const std::string &name, const T &field);

private:
  void addBuffer(FieldRole role, const std::string &name);
  void addAttribute(const std::string &constraint, const std::string &name, bool isOptional);
};

void append(std::string &list, const std::string &entry) {
  list += (list.empty() ? "" : ", ") + entry;
}

} // namespace

void Definition::addBuffer(FieldRole role, const std::string &name) {
  const bool isUpdate = role == FieldRole::kUpdate;
  if (isUpdate || role == FieldRole::kRead || role == FieldRole::kReadInPlace)
    append(arguments, "Moe_RowType:$" + name);
  if (isUpdate || role == FieldRole::kWrite)
    append(results, "Moe_RowType:$" + name + (isUpdate ? "Updated" : ""));
}

void Definition::addAttribute(const std::string &constraint, const std::string &name,
                              bool isOptional) {
  append(arguments, constraint + ":$" + name);
  format += isOptional ? " (`" + name + "` $" + name + "^)?" : " `" + name + "` $" + name;
}

template <typename T>
void Definition::add(FieldRole role, const std::string &name, const T &field) {
  const auto defaulted = [](const std::string &constraint, const std::string &value) {
    return "DefaultValuedAttr<" + constraint + ", \"" + value + "\">";
  };
  hasSlot |= role == FieldRole::kSlot;
  hasState |= role == FieldRole::kStateSlot;
  hasKey |= role == FieldRole::kRead && name == "key";
  if (isBuffer(role))
    addBuffer(role, name);
  else if (role != FieldRole::kNumber)
    addAttribute(isOptional(role) ? "OptionalAttr<FlatSymbolRefAttr>" : "FlatSymbolRefAttr", name,
                 isOptional(role));
  else if constexpr (std::is_same_v<T, bool>)
    addAttribute("UnitAttr", name, true);
  else if constexpr (std::is_same_v<T, float>)
    addAttribute(defaulted("F32Attr", std::to_string(field) + "f"), name, true);
  else if constexpr (std::is_enum_v<T>)
    addAttribute(defaulted(std::string("Moe_") + kEnumName<T>,
                           std::string("static_cast<::mlir::moe::") + kEnumName<T> + ">(" +
                               std::to_string(int(field)) + ")"),
                 name, true);
  else
    addAttribute(defaulted("I32Attr", std::to_string(field)), name, true);
}

/// "store_kv" as "StoreKv".
static std::string classNameOf(const std::string &name) {
  std::string made;
  for (size_t i = 0; i < name.size(); ++i)
    if (name[i] != '_')
      made += i == 0 || name[i - 1] == '_' ? char(name[i] - 'a' + 'A') : name[i];
  return made;
}

/// Attention reads the cache, stores of keys write it, and a choice of keys does both; a state is
/// read and written; what has no result gives something to others than instructions: logits, or
/// prefetch candidates.
static const char *effectsOf(const Definition &definition) {
  if (definition.hasState)
    return "MemoryEffects<[MemRead<Moe_States>, MemWrite<Moe_States>]>";
  if (definition.hasSlot && definition.hasKey && !definition.results.empty())
    return "MemoryEffects<[MemRead<Moe_KvCache>, MemWrite<Moe_KvCache>]>";
  if (definition.hasSlot)
    return definition.results.empty() ? "MemoryEffects<[MemWrite<Moe_KvCache>]>"
                                      : "MemoryEffects<[MemRead<Moe_KvCache>]>";
  return definition.results.empty() ? "MemoryEffects<[MemWrite<Moe_Outputs>]>" : "Pure";
}

int main() {
  std::puts("include \"MoeOps.td\"");
  for (size_t number = 0; number < kInstructionKinds; ++number) {
    const Instruction instruction = emptyInstruction(number);
    Definition definition;
    describe(instruction, [&](FieldRole role, const char *name, const auto &field) {
      definition.add(role, name, field);
    });
    const std::string name = classNameOf(nameOf(instruction));
    std::printf("\ndef Moe_%sOp : Moe_InstructionOp<\"%s\", [%s]> {\n"
                "  let summary = \"moert::%sInstruction\";\n"
                "  let arguments = (ins %s);\n"
                "  let results = (outs %s);\n"
                "  let assemblyFormat = [{\n"
                "    operands%s attr-dict `:` functional-type(operands, results)\n"
                "  }];\n"
                "}\n",
                name.c_str(), nameOf(instruction), effectsOf(definition), name.c_str(),
                definition.arguments.c_str(), definition.results.c_str(),
                definition.format.c_str());
  }
}
