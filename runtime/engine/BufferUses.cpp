#include "runtime/engine/BufferUses.h"

#include <algorithm>

namespace moert {

namespace {

/// Collects the operands of one instruction, without absent ones.
struct Collector {
  BufferUses uses;

  void reads(std::initializer_list<int32_t> buffers) { add(uses.reads, buffers); }
  void writes(std::initializer_list<int32_t> buffers) { add(uses.writes, buffers); }
  void weights(std::initializer_list<int32_t> indices) { add(uses.weights, indices); }

  void operator()(const EmbedInstruction &i) {
    writes({i.dst});
    weights({i.weight});
  }
  void operator()(const NormInstruction &i) {
    reads({i.src});
    writes({i.dst});
    weights({i.weight, i.bias});
  }
  void operator()(const QuantizeInstruction &i) {
    reads({i.src});
    writes({i.dst});
  }
  void operator()(const LinearInstruction &i) {
    reads({i.src});
    writes({i.dst});
    weights({i.weight, i.bias});
  }
  void operator()(const RopeInstruction &i) {
    reads({i.buffer});
    writes({i.buffer});
  }
  void operator()(const StoreKvInstruction &i) { reads({i.key, i.value}); }
  void operator()(const AttendInstruction &i) {
    reads({i.query});
    writes({i.dst});
  }
  void operator()(const ActivateInstruction &i) {
    reads({i.gate, i.up});
    writes({i.dst});
  }
  void operator()(const RouteInstruction &i) {
    reads({i.scores});
    writes({i.experts, i.weights});
  }
  void operator()(const ExpertsInstruction &i) {
    reads({i.src, i.experts, i.weights});
    writes({i.gathered, i.gate, i.up, i.hidden, i.ranks, i.dst});
  }
  // Only layerwise execution uses this, and prefetching is off there; predictions affect nothing
  // else.
  void operator()(const PredictInstruction &) {}
  void operator()(const AddInstruction &i) {
    reads({i.a, i.b});
    writes({i.dst});
  }
  void operator()(const GateRowsInstruction &i) {
    reads({i.src, i.gate});
    writes({i.dst});
  }
  void operator()(const HeadInstruction &i) {
    reads({i.src});
    weights({i.weight, i.bias});
  }

private:
  static void add(std::vector<int32_t> &list, std::initializer_list<int32_t> indices) {
    std::copy_if(indices.begin(), indices.end(), std::back_inserter(list),
                 [](int32_t index) { return index != kNone; });
  }
};

} // namespace

BufferUses usesOf(const Instruction &instruction) {
  Collector collector;
  std::visit(collector, instruction);
  return std::move(collector.uses);
}

std::vector<int32_t> liveBuffers(const Program &program, size_t boundary) {
  enum class Fate : uint8_t { kUnknown, kLive, kOverwritten };
  std::vector<Fate> fates(program.buffers.size(), Fate::kUnknown);
  auto settle = [&fates](const std::vector<int32_t> &buffers, Fate fate) {
    for (int32_t buffer : buffers)
      if (fates[static_cast<size_t>(buffer)] == Fate::kUnknown)
        fates[static_cast<size_t>(buffer)] = fate;
  };
  for (size_t i = boundary; i < program.instructions.size(); ++i) {
    BufferUses uses = usesOf(program.instructions[i]);
    settle(uses.reads, Fate::kLive);
    settle(uses.writes, Fate::kOverwritten);
  }
  std::vector<int32_t> live;
  for (size_t i = 0; i < fates.size(); ++i)
    if (fates[i] == Fate::kLive)
      live.push_back(static_cast<int32_t>(i));
  return live;
}

} // namespace moert
