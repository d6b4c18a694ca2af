#include "passes/PlaceBuffers.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <type_traits>

namespace mlir::moe {

using moert::FieldRole;

static bool overlapInTime(const Lifetime &a, const Lifetime &b) {
  return a.first <= b.last && b.first <= a.last;
}

// Finding the smallest arena is NP-hard. On lists of this kind, where layers repeat, largest first
// is within a few percent of the live bytes at the fullest instruction.
std::vector<uint64_t> placeBuffers(std::span<const Lifetime> lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Lifetime &x = lifetimes[a], &y = lifetimes[b];
    return std::tuple(y.bytes, x.first, a) < std::tuple(x.bytes, y.first, b);
  });

  std::vector<uint64_t> offsets(lifetimes.size());
  std::vector<size_t> placed; // By offset.
  for (size_t i : order) {
    uint64_t offset = 0;
    for (size_t j : placed) {
      if (!overlapInTime(lifetimes[i], lifetimes[j]))
        continue;
      if (offset + lifetimes[i].bytes <= offsets[j])
        break; // Fits below j; the buffers after j have higher offsets.
      offset = std::max(offset, offsets[j] + lifetimes[j].bytes);
    }
    offsets[i] = offset;
    auto above =
        std::find_if(placed.begin(), placed.end(), [&](size_t j) { return offsets[j] > offset; });
    placed.insert(above, i);
  }
  return offsets;
}

bool isWritten(FieldRole role) {
  return role == FieldRole::kWrite || role == FieldRole::kScratch ||
         role == FieldRole::kOptionalScratch;
}

namespace {

/// Calls visit(role, buffer) for each buffer of an instruction.
template <typename Visit> void forEachBuffer(const moert::Instruction &instruction, Visit &&visit) {
  describe(instruction, [&]<typename T>(FieldRole role, const char *, const T &field) {
    if constexpr (std::is_same_v<T, int32_t>)
      if (isBuffer(role) && field != moert::kNone)
        visit(role, static_cast<size_t>(field));
  });
}

bool isSameKind(const moert::Buffer &a, const moert::Buffer &b) {
  return a.kind == b.kind && a.bytesPerToken == b.bytesPerToken;
}

} // namespace

/// The buffer that each lies in: its own, or that of the first input which has no later use and
/// may be overwritten by it.
static std::vector<size_t> placesOf(const moert::Program &program) {
  std::vector<size_t> places(program.buffers.size()), lastUses(program.buffers.size());
  std::iota(places.begin(), places.end(), size_t(0));
  for (size_t i = 0; i < program.instructions.size(); ++i)
    forEachBuffer(program.instructions[i], [&](FieldRole, size_t buffer) { lastUses[buffer] = i; });
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    std::vector<size_t> dying, kept;
    forEachBuffer(program.instructions[i], [&](FieldRole role, size_t buffer) {
      if (role == FieldRole::kReadInPlace && lastUses[buffer] == i)
        dying.push_back(buffer);
      else if (!isWritten(role))
        kept.push_back(places[buffer]);
    });
    forEachBuffer(program.instructions[i], [&](FieldRole role, size_t buffer) {
      const auto source = std::ranges::find_if(dying, [&](size_t each) {
        return isSameKind(program.buffers[each], program.buffers[buffer]) &&
               std::ranges::find(kept, places[each]) == kept.end();
      });
      if (role != FieldRole::kWrite || source == dying.end())
        return;
      places[buffer] = places[*source];
      kept.push_back(places[buffer]);
    });
  }
  return places;
}

void placeProgram(moert::Program &program) {
  const std::vector<size_t> places = placesOf(program);
  std::vector<std::optional<Lifetime>> found(program.buffers.size());
  uint32_t run = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    // Joined instructions are computed together, so their results must not overlap.
    run += i > 0 && !isJoined(program.instructions[i]);
    forEachBuffer(program.instructions[i], [&](FieldRole, size_t buffer) {
      std::optional<Lifetime> &lifetime = found[places[buffer]];
      if (!lifetime)
        lifetime = {program.buffers[buffer].bytesPerToken, run, run};
      lifetime->last = run;
    });
  }
  std::vector<Lifetime> lifetimes;
  std::vector<size_t> numbers(found.size());
  for (size_t i = 0; i < found.size(); ++i)
    if (numbers[i] = lifetimes.size(); found[i])
      lifetimes.push_back(*found[i]);
  const std::vector<uint64_t> offsets = placeBuffers(lifetimes);
  for (size_t i = 0; i < found.size(); ++i)
    program.buffers[i].offset = offsets[numbers[places[i]]];
}

} // namespace mlir::moe
