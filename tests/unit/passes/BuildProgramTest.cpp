// Every instruction is converted to the runtime's plain data with every field in its place. All
// fields of an instruction have different values, so that swapped fields are found.
#include "compiler/ir/BuildProgram.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <doctest/doctest.h>

#include <string>

using namespace mlir;

namespace {

// Two weights, two layers and so on, so that the tested indices differ from 0.
constexpr const char *kSymbols = R"(
  moe.weight @unused matrix from <tensor = "x", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16> as <kind = f32>
  moe.weight @nb vector from <tensor = "nb", rows = 1, cols = 16, type = bf16> as <kind = f32>
  moe.weight @wb vector from <tensor = "wb", rows = 1, cols = 96, type = bf16> as <kind = f32>
  moe.weight @w32 matrix from <tensor = "a", rows = 32, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @w16 matrix from <tensor = "b", rows = 16, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @w3 router from <tensor = "c", rows = 3, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @w1 router from <tensor = "d", rows = 1, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @b3 vector from <tensor = "cb", rows = 1, cols = 3, type = bf16> as <kind = f32>
  moe.weight @h heads from <tensor = "h", rows = 16, cols = 24, type = bf16> as <kind = bf16>
  moe.weight @b288 vector from <tensor = "gb", rows = 1, cols = 288, type = bf16> as <kind = f32>
  moe.weight @c288 vector from <tensor = "ub", rows = 1, cols = 288, type = bf16> as <kind = f32>
  moe.weight @b192 vector from <tensor = "db", rows = 1, cols = 192, type = bf16> as <kind = f32>
  moe.weight @b4 vector from <tensor = "s", rows = 1, cols = 4, type = bf16> as <kind = f32>
  moe.weight @c taps from <tensor = "c", rows = 64, cols = 4, type = bf16> as <kind = f32>
  moe.weight @r3 vector from <tensor = "r", rows = 1, cols = 3, type = bf16> as <kind = f32>
  moe.weight @one vector from <tensor = "o", rows = 1, cols = 1, type = bf16> as <kind = f32>
  moe.state_slot @s0 rows 1 width 1
  moe.state_slot @s1 rows 3 width 64
  moe.state_slot @s2 rows 96 width 32
  moe.kv_slot @kv0 heads 1 key 8 value 8
  moe.kv_slot @kv1 heads 2 key 16 value 8
  moe.rope @rope0 half factor 1.0 frequencies [1.0 : f32]
  moe.rope @rope1 half factor 1.0 frequencies [1.0 : f32]
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

// Buffer numbers: f64a 0, f64b 1, q64 2, f96a 3, f96b 4, k 5, v 6, s 7, i 8, t 9, g1 10, x 11, y
// 12, r 13, s2 14, k2 15, h96 16. None overlaps another.
constexpr const char *kBuffers = R"(
  %f64a = moe.buffer at 0 : !moe.buffer<f32, 64>
  %f64b = moe.buffer at 256 : !moe.buffer<f32, 64>
  %q64 = moe.buffer at 512 : !moe.buffer<quantized, 64, group = 32>
  %f96a = moe.buffer at 704 : !moe.buffer<f32, 96>
  %f96b = moe.buffer at 1088 : !moe.buffer<f32, 96>
  %k = moe.buffer at 1472 : !moe.buffer<f32, 32>
  %v = moe.buffer at 1600 : !moe.buffer<f32, 16>
  %s = moe.buffer at 1664 : !moe.buffer<f32, 3>
  %i = moe.buffer at 1728 : !moe.buffer<i32, 2>
  %t = moe.buffer at 1792 : !moe.buffer<f32, 2>
  %g1 = moe.buffer at 1856 : !moe.buffer<f32, 1>
  %x = moe.buffer at 1920 : !moe.buffer<quantized, 64, group = 32>
  %y = moe.buffer at 2112 : !moe.buffer<quantized, 96, group = 32>
  %r = moe.buffer at 2368 : !moe.buffer<f32, 128>
  %s2 = moe.buffer at 2880 : !moe.buffer<f32, 3>
  %k2 = moe.buffer at 2944 : !moe.buffer<f32, 32>
  %h96 = moe.buffer at 3072 : !moe.buffer<hadamard, 96, group = 32>
)";

/// A program of one instruction between an embedding and a head. `before` writes everything that
/// the instruction reads.
moert::Program buildWith(const std::string &before, const std::string &instruction,
                         const std::string &headOptions = "") {
  MLIRContext context;
  context.loadDialect<moe::MoeDialect, func::FuncDialect>();
  std::string text = std::string(kSymbols) + "moe.program @decode {" + kBuffers +
                     "moe.exec.embed %f64a weight @w scale 1.0 : !moe.buffer<f32, 64>\n" + before +
                     instruction + "\nmoe.exec.head %f64a weight @w scale 1.0 " + headOptions +
                     ": !moe.buffer<f32, 64>\n}";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  REQUIRE(module);
  FailureOr<moert::Program> program = moe::buildProgram(*module->getOps<moe::ProgramOp>().begin());
  REQUIRE(succeeded(program));
  return *program;
}

template <typename InstructionT>
InstructionT buildOne(const std::string &instruction, const std::string &before = "") {
  moert::Program program = buildWith(before, instruction);
  REQUIRE(program.instructions.size() >= 3);
  const auto *found =
      std::get_if<InstructionT>(&program.instructions[program.instructions.size() - 2]);
  REQUIRE(found);
  return *found;
}

const std::string kF64 = "!moe.buffer<f32, 64>", kF96 = "!moe.buffer<f32, 96>",
                  kQ64 = "!moe.buffer<quantized, 64, group = 32>";
const std::string kWriteF96a =
    "moe.exec.linear %f64a to %f96a weight @w : " + kF64 + ", " + kF96 + "\n";
const std::string kWriteF96b =
    "moe.exec.linear %f64a to %f96b weight @w : " + kF64 + ", " + kF96 + "\n";
const std::string kWriteF64b = "moe.exec.embed %f64b weight @w scale 1.0 : " + kF64 + "\n";

// Products of the right widths, for keys, values, scores and gates.
const std::string kWriteK =
    "moe.exec.linear %f64a to %k weight @w32 : " + kF64 + ", !moe.buffer<f32, 32>\n";
const std::string kWriteV =
    "moe.exec.linear %f64a to %v weight @w16 : " + kF64 + ", !moe.buffer<f32, 16>\n";
const std::string kWriteS =
    "moe.exec.linear %f64a to %s weight @w3 : " + kF64 + ", !moe.buffer<f32, 3>\n";
const std::string kWriteG1 =
    "moe.exec.linear %f64a to %g1 weight @w1 : " + kF64 + ", !moe.buffer<f32, 1>\n";
const std::string kRoute =
    "moe.exec.route %s to %i, %t of @e1 softmax_then_top_k renormalize true scale 1.5 : "
    "!moe.buffer<f32, 3>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>\n";

} // namespace

TEST_CASE("an embedding keeps its fields") {
  auto i = buildOne<moert::EmbedInstruction>("moe.exec.embed %f64b weight @w scale 2.5 : " + kF64);
  CHECK(i.dst == 1);
  CHECK(i.weight == 1);
  CHECK(i.scale == 2.5f);
}

TEST_CASE("a norm keeps its fields, with a bias and without") {
  auto i = buildOne<moert::NormInstruction>(
      "moe.exec.norm %f64a to %f64b weight @n bias @nb layer epsilon 0.5 segment 16 : " + kF64 +
      ", " + kF64);
  CHECK(i.src == 0);
  CHECK(i.dst == 1);
  CHECK(i.weight == 2);
  CHECK(i.bias == 3);
  CHECK(i.kind == moert::NormKind::kLayer);
  CHECK(i.epsilon == 0.5f);
  CHECK(i.segment == 16);
  i = buildOne<moert::NormInstruction>(
      "moe.exec.norm %f64a to %f64b weight @n rms epsilon 0.5 segment 16 : " + kF64 + ", " + kF64);
  CHECK(i.bias == moert::kNone);
  CHECK(i.kind == moert::NormKind::kRms);
}

TEST_CASE("a quantization keeps its fields") {
  auto i = buildOne<moert::QuantizeInstruction>("moe.exec.quantize %f64a to %q64 : " + kF64 + ", " +
                                                kQ64);
  CHECK(i.src == 0);
  CHECK(i.dst == 2);
}

TEST_CASE("a product keeps its fields, with a bias and without") {
  auto i = buildOne<moert::LinearInstruction>(
      "moe.exec.linear %f64a to %f96a weight @w bias @wb : " + kF64 + ", " + kF96);
  CHECK(i.src == 0);
  CHECK(i.dst == 3);
  CHECK(i.weight == 1);
  CHECK(i.bias == 4);
  i = buildOne<moert::LinearInstruction>("moe.exec.linear %f64a to %f96a weight @w : " + kF64 +
                                         ", " + kF96);
  CHECK(i.bias == moert::kNone);
}

TEST_CASE("a product per head keeps its fields") {
  auto i = buildOne<moert::LinearHeadsInstruction>(
      "moe.exec.linear_heads %f64a to %k weight @h heads 2 kept 8 : " + kF64 +
      ", !moe.buffer<f32, 32>");
  CHECK(i.src == 0);
  CHECK(i.dst == 5);
  CHECK(i.weight == 10);
  CHECK(i.heads == 2);
  CHECK(i.kept == 8);
}

TEST_CASE("a convolution keeps its fields") {
  auto i = buildOne<moert::ConvolveInstruction>(
      "moe.exec.convolve %f64a to %f64b weight @c slot @s1 silu true : " + kF64 + ", " + kF64);
  CHECK(i.src == 0);
  CHECK(i.dst == 1);
  CHECK(i.weight == 15);
  CHECK(i.slot == 1);
  CHECK(i.silu);
  i = buildOne<moert::ConvolveInstruction>(
      "moe.exec.convolve %f64a to %f64b weight @c slot @s1 silu false : " + kF64 + ", " + kF64);
  CHECK_FALSE(i.silu);
}

TEST_CASE("a division by lengths keeps its fields") {
  auto i = buildOne<moert::UnitNormInstruction>(
      "moe.exec.unit_norm %f64b epsilon 0.5 segment 16 : " + kF64, kWriteF64b);
  CHECK(i.buffer == 1);
  CHECK(i.epsilon == 0.5f);
  CHECK(i.segment == 16);
}

TEST_CASE("a decay keeps its fields") {
  const std::string f3 = "!moe.buffer<f32, 3>";
  auto i = buildOne<moert::DecayInstruction>(
      "moe.exec.decay %s to %s2 rate @r3 bias @b3 : " + f3 + ", " + f3, kWriteS);
  CHECK(i.src == 7);
  CHECK(i.dst == 14);
  CHECK(i.logRate == 16);
  CHECK(i.bias == 9);
}

TEST_CASE("a delta rule keeps its fields") {
  const std::string f3 = "!moe.buffer<f32, 3>", f32 = "!moe.buffer<f32, 32>";
  auto i = buildOne<moert::DeltaRuleInstruction>(
      "moe.exec.delta_rule %k, %k2, %f96a decay %s write %s2 to %f96b slot @s2 keys 1 heads 3 "
      "scale 0.25 : " +
          f32 + ", " + f32 + ", " + kF96 + ", " + f3 + ", " + f3 + ", " + kF96,
      kWriteK + kWriteS + kWriteF96a + "moe.exec.linear %f64a to %k2 weight @w32 : " + kF64 + ", " +
          f32 + "\nmoe.exec.linear %f64a to %s2 weight @w3 : " + kF64 + ", " + f3 + "\n");
  CHECK(i.query == 5);
  CHECK(i.key == 15);
  CHECK(i.value == 3);
  CHECK(i.decay == 7);
  CHECK(i.write == 14);
  CHECK(i.dst == 4);
  CHECK(i.slot == 2);
  CHECK(i.keyHeads == 1);
  CHECK(i.heads == 3);
  CHECK(i.scale == 0.25f);
}

TEST_CASE("an elementwise gate keeps its fields") {
  auto i = buildOne<moert::GateInstruction>(
      "moe.exec.gate %f64a by %f64b to %f64b linear : " + kF64 + ", " + kF64 + ", " + kF64,
      kWriteF64b);
  CHECK(i.src == 0);
  CHECK(i.gate == 1);
  CHECK(i.dst == 1);
  CHECK(i.kind == moert::GateKind::kLinear);
  i = buildOne<moert::GateInstruction>("moe.exec.gate %f64a by %f64b to %f64b sigmoid : " + kF64 +
                                           ", " + kF64 + ", " + kF64,
                                       kWriteF64b);
  CHECK(i.kind == moert::GateKind::kSigmoid);
}

TEST_CASE("a rotation keeps its fields") {
  auto i =
      buildOne<moert::RopeInstruction>("moe.exec.rope %f64a heads 4 of 16 by @rope1 : " + kF64);
  CHECK(i.buffer == 0);
  CHECK(i.heads == 4);
  CHECK(i.headDim == 16);
  CHECK(i.rope == 1);
}

TEST_CASE("an attention keeps its fields") {
  auto i = buildOne<moert::AttendInstruction>(
      "moe.exec.attend %f64a to %k slot @kv1 heads 4 window 7 scale 0.25 : " + kF64 +
      ", !moe.buffer<f32, 32>");
  CHECK(i.query == 0);
  CHECK(i.dst == 5);
  CHECK(i.slot == 1);
  CHECK(i.heads == 4);
  CHECK(i.window == 7);
  CHECK(i.scale == 0.25f);
  CHECK(i.sinks == moert::kNone);
  i = buildOne<moert::AttendInstruction>(
      "moe.exec.attend %f64a to %k slot @kv1 heads 4 window 7 scale 0.25 sinks @b4 : " + kF64 +
      ", !moe.buffer<f32, 32>");
  CHECK(i.sinks == 14);
}

TEST_CASE("keys and values keep their fields") {
  auto i = buildOne<moert::StoreKvInstruction>(
      "moe.exec.store_kv %k, %v slot @kv1 : !moe.buffer<f32, 32>, !moe.buffer<f32, 16>",
      kWriteK + kWriteV);
  CHECK(i.key == 5);
  CHECK(i.value == 6);
  CHECK(i.slot == 1);
}

TEST_CASE("a routing keeps its fields") {
  auto i = buildOne<moert::RouteInstruction>(kRoute, kWriteS);
  CHECK(i.scores == 7);
  CHECK(i.experts == 8);
  CHECK(i.weights == 9);
  CHECK(i.moeLayer == 1);
  CHECK(i.scoring == moert::RouterScoring::kSoftmaxThenTopK);
  CHECK(i.renormalize);
  CHECK(i.weightScale == 1.5f);
}

TEST_CASE("a routing keeps its bias and groups") {
  auto i = buildOne<moert::RouteInstruction>(
      "moe.exec.route %s to %i, %t of @e1 sigmoid renormalize false scale 2.5 bias @b3 groups 3 "
      "kept 2 by two_largest begins_reads : "
      "!moe.buffer<f32, 3>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>\n",
      kWriteS);
  CHECK(i.scoring == moert::RouterScoring::kSigmoid);
  CHECK_FALSE(i.renormalize);
  CHECK(i.choiceBias == 9);
  CHECK(i.groups == 3);
  CHECK(i.keptGroups == 2);
  CHECK(i.groupScore == moert::GroupScore::kTwoLargest);
  CHECK(i.beginsReads);
}

TEST_CASE("a routing keeps its weight factors") {
  auto i = buildOne<moert::RouteInstruction>(
      "moe.exec.route %s to %i, %t of @e1 sigmoid renormalize false scale 2.5 factors @b3 "
      "begins_reads : !moe.buffer<f32, 3>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>\n",
      kWriteS);
  CHECK(i.choiceBias == moert::kNone);
  CHECK(i.weightFactors == 9);
}

TEST_CASE("a scale keeps its fields, with a weight and without") {
  auto i = buildOne<moert::ScaleInstruction>(
      "moe.exec.scale %f64a to %f64b weight @one factor 0.5 : " + kF64 + ", " + kF64);
  CHECK(i.src == 0);
  CHECK(i.dst == 1);
  CHECK(i.weight == 17);
  CHECK(i.factor == 0.5f);
  i = buildOne<moert::ScaleInstruction>("moe.exec.scale %f64a to %f64b factor 0.5 : " + kF64 +
                                        ", " + kF64);
  CHECK(i.weight == moert::kNone);
}

TEST_CASE("a norm without a weight keeps its segment") {
  auto i = buildOne<moert::NormInstruction>(
      "moe.exec.norm %f64a to %f64b rms epsilon 0.5 segment 16 : " + kF64 + ", " + kF64);
  CHECK(i.weight == moert::kNone);
  CHECK(i.bias == moert::kNone);
  CHECK(i.segment == 16);
}

TEST_CASE("a routing keeps its tolerance") {
  auto i = buildOne<moert::RouteInstruction>(
      "moe.exec.route %s to %i, %t of @e1 sparsemixer renormalize false scale 1.0 tolerance 0.5 : "
      "!moe.buffer<f32, 3>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>\n",
      kWriteS);
  CHECK(i.scoring == moert::RouterScoring::kSparsemixer);
  CHECK(i.tolerance == 0.5f);
}

TEST_CASE(
    "attention in chunks, a scale by positions and a norm without a weight keep their fields") {
  auto attend = buildOne<moert::AttendInstruction>(
      "moe.exec.attend %f64a to %k slot @kv1 heads 4 window 7 scale 0.25 chunked : " + kF64 +
      ", !moe.buffer<f32, 32>");
  CHECK(attend.window == 7);
  CHECK(attend.chunked);
  auto scale = buildOne<moert::ScaleByPositionInstruction>(
      "moe.exec.scale_by_position %f64a scale 0.25 period 7 : " + kF64);
  CHECK(scale.buffer == 0);
  CHECK(scale.scale == 0.25f);
  CHECK(scale.period == 7);
  auto norm = buildOne<moert::NormInstruction>(
      "moe.exec.norm %f64a to %f64a rms epsilon 0.5 segment 16 : " + kF64 + ", " + kF64);
  CHECK(norm.weight == moert::kNone);
  CHECK(norm.segment == 16);
}

TEST_CASE("a scaled input keeps its fields") {
  auto i = buildOne<moert::ScaleInputInstruction>(
      "moe.exec.scale_input %f64a by %g1 to %f64b : " + kF64 + ", !moe.buffer<f32, 1>, " + kF64,
      kWriteG1);
  CHECK(i.src == 0);
  CHECK(i.weights == 10);
  CHECK(i.dst == 1);
}

TEST_CASE("a clamp keeps its fields") {
  auto i = buildOne<moert::ClampInstruction>("moe.exec.clamp %f64a limit 8.0 : " + kF64);
  CHECK(i.buffer == 0);
  CHECK(i.limit == 8);
}

TEST_CASE("a prediction keeps its fields, with a bias and without") {
  auto i = buildOne<moert::PredictInstruction>(
      "moe.exec.predict %f64a to %s weight @w3 bias @b3 of @e1 ahead 1 {moe.layer = 0 : i32} : " +
      kF64 + ", !moe.buffer<f32, 3>");
  CHECK(i.src == 0);
  CHECK(i.scores == 7);
  CHECK(i.weight == 7);
  CHECK(i.bias == 9);
  CHECK(i.moeLayer == 1);
  CHECK(i.ahead == 1);
  i = buildOne<moert::PredictInstruction>(
      "moe.exec.predict %f64a to %s weight @w3 of @e1 ahead 3 : " + kF64 + ", !moe.buffer<f32, 3>");
  CHECK(i.bias == moert::kNone);
  CHECK(i.ahead == 3);
}

TEST_CASE("experts keep their fields") {
  auto i = buildOne<moert::ExpertsInstruction>(
      "moe.exec.experts %q64 to %f64b of @e1 chosen %i, %t scratch gathered %x gate %f96a up %f96b "
      "ranks %r hidden %y : " +
          kQ64 + ", " + kF64 + ", !moe.buffer<i32, 2>, !moe.buffer<f32, 2>, " + kQ64 + ", " + kF96 +
          ", " + kF96 + ", !moe.buffer<f32, 128>, !moe.buffer<quantized, 96, group = 32>",
      kWriteS + kRoute + "moe.exec.quantize %f64a to %q64 : " + kF64 + ", " + kQ64 + "\n");
  CHECK(i.src == 2);
  CHECK(i.dst == 1);
  CHECK(i.moeLayer == 1);
  CHECK(i.experts == 8);
  CHECK(i.weights == 9);
  CHECK(i.gathered == 11);
  CHECK(i.gate == 3);
  CHECK(i.up == 4);
  CHECK(i.ranks == 13);
  CHECK(i.hidden == 12);
  CHECK(i.gateBias == moert::kNone);
  CHECK(i.upBias == moert::kNone);
  CHECK(i.downBias == moert::kNone);
}

TEST_CASE("experts keep their biases") {
  auto i = buildOne<moert::ExpertsInstruction>(
      "moe.exec.experts %q64 to %f64b of @e1 chosen %i, %t scratch gathered %x gate %f96a up %f96b "
      "ranks %r hidden %y gate_bias @b288 up_bias @c288 down_bias @b192 : " +
          kQ64 + ", " + kF64 + ", !moe.buffer<i32, 2>, !moe.buffer<f32, 2>, " + kQ64 + ", " + kF96 +
          ", " + kF96 + ", !moe.buffer<f32, 128>, !moe.buffer<quantized, 96, group = 32>",
      kWriteS + kRoute + "moe.exec.quantize %f64a to %q64 : " + kF64 + ", " + kQ64 + "\n");
  CHECK(i.gateBias == 11);
  CHECK(i.upBias == 12);
  CHECK(i.downBias == 13);
}

TEST_CASE("a gate of rows keeps its fields") {
  auto i = buildOne<moert::GateRowsInstruction>(
      "moe.exec.gate_rows %f64b by %g1 to %f64b : " + kF64 + ", !moe.buffer<f32, 1>, " + kF64,
      kWriteF64b + kWriteG1);
  CHECK(i.src == 1);
  CHECK(i.gate == 10);
  CHECK(i.dst == 1);
}

TEST_CASE("an activation keeps its fields") {
  auto i = buildOne<moert::ActivateInstruction>(
      "moe.exec.activate %f96a, %f96b to %f96b gelu_tanh : " + kF96 + ", " + kF96 + ", " + kF96,
      kWriteF96a + kWriteF96b);
  CHECK(i.gate == 3);
  CHECK(i.up == 4);
  CHECK(i.dst == 4);
  CHECK(i.activation == moert::Activation::kGeluTanh);
  CHECK(i.alpha == 0);
  CHECK(i.limit == 0);
  i = buildOne<moert::ActivateInstruction>(
      "moe.exec.activate %f96a, %f96b to %f96b clamped_swiglu alpha 1.5 limit 7.0 : " + kF96 +
          ", " + kF96 + ", " + kF96,
      kWriteF96a + kWriteF96b);
  CHECK(i.activation == moert::Activation::kClampedSwiglu);
  CHECK(i.alpha == 1.5f);
  CHECK(i.limit == 7);
}

TEST_CASE("an addition keeps its fields") {
  auto i = buildOne<moert::AddInstruction>(
      "moe.exec.add %f64b, %f64a to %f64b scale 3.0 : " + kF64 + ", " + kF64 + ", " + kF64,
      kWriteF64b);
  CHECK(i.a == 1);
  CHECK(i.b == 0);
  CHECK(i.dst == 1);
  CHECK(i.scale == 3.0f);
}

TEST_CASE("a head keeps its fields, and the arena ends at the end of its last buffer") {
  moert::Program program = buildWith("", "");
  const auto &plain = std::get<moert::HeadInstruction>(program.instructions.back());
  CHECK(plain.src == 0);
  CHECK(plain.weight == 1);
  CHECK(plain.bias == moert::kNone);
  CHECK(plain.scale == 1.0f);
  CHECK(plain.softCap == 0.0f);
  const moert::Program capped = buildWith("", "", "soft_cap 30.0 ");
  CHECK(std::get<moert::HeadInstruction>(capped.instructions.back()).softCap == 30.0f);
  CHECK(program.name == "decode");
  CHECK(program.arenaBytesPerToken == 3072 + 256);
  REQUIRE(program.buffers.size() == 17);
  CHECK(program.buffers[2].kind == moert::BufferKind::kQuantized);
  CHECK(program.buffers[2].width == 64);
  CHECK(program.buffers[2].group == 32);
  CHECK(program.buffers[2].offset == 512);
  CHECK(program.buffers[2].bytesPerToken == 192);
  CHECK(program.buffers[16] == moert::Buffer{moert::BufferKind::kHadamard, 96, 32, 3072, 256});
}

TEST_CASE("an instruction keeps its layer's number") {
  moert::Program program =
      buildWith("", "moe.exec.rope %f64a heads 4 of 16 by @rope1 {moe.layer = 5 : i32} : " + kF64);
  CHECK(program.layers == std::vector<int32_t>{moert::kNone, 5, moert::kNone});
}
