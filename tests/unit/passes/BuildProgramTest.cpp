// Every instruction is converted to the runtime's plain data with every field in its place.
#include "compiler/ir/BuildProgram.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <doctest/doctest.h>

using namespace mlir;
using moert::FieldRole;

namespace {

// Two weights, two layers and so on, so that the tested indices differ from 0.
constexpr const char *kSymbols = R"(
  moe.weight @w0 router from <tensor = "v", rows = 2, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @w1 router from <tensor = "w", rows = 3, cols = 64, type = bf16> as <kind = bf16>
  moe.state_slot @s0 rows 1 width 1
  moe.state_slot @s1 rows 3 width 64
  moe.kv_slot @kv0 heads 1 key 8 value 8
  moe.kv_slot @kv1 heads 2 key 16 value 8
  moe.rope_table @rope0 half factor 1.0 frequencies [1.0 : f32]
  moe.rope_table @rope1 half factor 1.0 frequencies [1.0 : f32]
  moe.moe_layer @e0 layer 0 silu experts 3
    matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
  moe.moe_layer @e1 layer 1 silu experts 3
    matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = int4, group = 32, activationGroup = 32>],
            [#moe.format<kind = int4, group = 32, activationGroup = 32>],
            [#moe.format<kind = int4, group = 32, activationGroup = 32>]]
)";

const char *secondOf(FieldRole role) {
  switch (role) {
  case FieldRole::kSlot:
    return "kv1";
  case FieldRole::kStateSlot:
    return "s1";
  case FieldRole::kRope:
    return "rope1";
  case FieldRole::kMoeLayer:
    return "e1";
  default:
    return "w1";
  }
}

/// A module with the symbols and a program of one instruction.
class OneInstruction {
public:
  explicit OneInstruction(size_t number) : expected(moert::emptyInstruction(number)) {
    context.loadDialect<moe::MoeDialect>();
    module = parseSourceString<ModuleOp>(kSymbols, &context);
    REQUIRE(module);
    OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
    program = moe::ProgramOp::create(builder, module->getLoc(), "decode");
    builder.setInsertionPointToStart(&program.block());
    OperationState state(module->getLoc(), "moe." + std::string(nameOf(expected)));
    moert::describe(expected, [&](FieldRole role, const char *name, auto &field) {
      addField(builder, state, role, name, field);
    });
    for (FieldRole each : {FieldRole::kWrite, FieldRole::kScratch, FieldRole::kOptionalScratch})
      moert::describe(expected, [&]<typename T>(FieldRole role, const char *, T &field) {
        if (role == each)
          field = static_cast<T>(buffers++);
      });
    builder.create(state);
  }

  moert::Instruction expected;
  moe::ProgramOp program;

private:
  template <typename T>
  void addField(OpBuilder &builder, OperationState &state, FieldRole role, const char *name,
                T &field) {
    auto row = moe::RowType::get(&context, moe::BufferKind::kF32, 64, 0, 1);
    if (role == FieldRole::kWrite || role == FieldRole::kUpdate)
      state.addTypes(row);
    if (role == FieldRole::kRead || role == FieldRole::kReadInPlace || role == FieldRole::kUpdate) {
      auto embed = moe::EmbedOp::create(builder, module->getLoc(), row, "w0", llvm::APFloat(1.0f));
      state.addOperands(embed->getResults());
      field = static_cast<T>(buffers++);
    } else if (role != FieldRole::kNumber) {
      if (!isBuffer(role)) {
        state.addAttribute(name, FlatSymbolRefAttr::get(&context, secondOf(role)));
        field = static_cast<T>(1);
      }
    } else if constexpr (std::is_same_v<T, float>) {
      field = 0.5f + static_cast<float>(++numbers);
      state.addAttribute(name, builder.getF32FloatAttr(field));
    } else if constexpr (std::is_same_v<T, bool>) {
      field = true;
      state.addAttribute(name, builder.getUnitAttr());
    } else {
      const int32_t value = std::is_enum_v<T> ? 1 : static_cast<int32_t>(++numbers) + 1;
      field = static_cast<T>(value);
      state.addAttribute(name, builder.getI32IntegerAttr(value));
    }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  size_t buffers = 0, numbers = 0; // Fields have different numbers, so that swapped ones are found.
};

moert::Program built(const std::string &body) {
  MLIRContext context;
  context.loadDialect<moe::MoeDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      std::string(kSymbols) + "moe.program @decode {" + body + "}", &context);
  REQUIRE(module);
  FailureOr<moert::Program> program = moe::buildProgram(*module->getOps<moe::ProgramOp>().begin());
  REQUIRE(succeeded(program));
  return *program;
}

} // namespace

TEST_CASE("every field of every instruction arrives as its op has it") {
  for (size_t number = 0; number < moert::kInstructionKinds; ++number) {
    OneInstruction one(number);
    CAPTURE(moert::nameOf(one.expected));
    FailureOr<moert::Program> program = moe::buildProgram(one.program);
    REQUIRE(succeeded(program));
    CHECK(program->instructions.back() == one.expected);
  }
}

TEST_CASE("an attribute that an op lacks has its default, an optional symbol none") {
  const moert::Program program = built(R"(
    %h = moe.embed weight @w1 scale 1.0 : () -> !moe.row<f32, 64>
    %s = moe.linear %h weight @w1 : (!moe.row<f32, 64>) -> !moe.row<f32, 3>
    %i, %t = moe.route %s moeLayer @e1 weightScale 1.0
      : (!moe.row<f32, 3>) -> (!moe.row<i32, 2>, !moe.row<f32, 2>)
    moe.head %h weight @w1 scale 1.0 {moe.layer = 5 : i32} : (!moe.row<f32, 64>) -> ())");
  const auto &route = std::get<moert::RouteInstruction>(program.instructions[2]);
  CHECK(route.groups == 1);
  CHECK_FALSE(route.renormalize);
  CHECK(route.choiceBias == moert::kNone);
  CHECK(program.layers == std::vector<int32_t>{moert::kNone, moert::kNone, moert::kNone, 5});
}

TEST_CASE("rows of one type at one offset are one buffer, and the arena ends with the last") {
  const moert::Program program = built(R"(
    %h = moe.embed weight @w1 scale 1.0 {moe.offsets = array<i64: 64>} : () -> !moe.row<f32, 64>
    %q = moe.quantize %h {moe.offsets = array<i64: 320>}
      : (!moe.row<f32, 64>) -> !moe.row<quantized, 64, group = 32>
    %n = moe.norm %h segment 64 {moe.offsets = array<i64: 64>}
      : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
    moe.predict %n weight @w1 moeLayer @e1 ahead 1 {moe.offsets = array<i64: 0>}
      : (!moe.row<f32, 64>) -> ()
    moe.head %n weight @w1 scale 1.0 : (!moe.row<f32, 64>) -> ())");
  using moert::BufferKind;
  CHECK(program.buffers == std::vector<moert::Buffer>{{BufferKind::kF32, 64, 0, 64, 256},
                                                      {BufferKind::kQuantized, 64, 32, 320, 192},
                                                      {BufferKind::kF32, 3, 0, 0, 64}});
  CHECK(std::get<moert::NormInstruction>(program.instructions[2]).dst == 0);
  CHECK(std::get<moert::PredictInstruction>(program.instructions[3]).scores == 2);
  CHECK(program.arenaBytesPerToken == 320 + 192);
}
