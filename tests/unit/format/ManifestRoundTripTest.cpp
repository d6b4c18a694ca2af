// Any values that the schema can hold survive a round trip, sensible or not: other tests check the
// rules between them.
#include "runtime/format/Manifest.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace moert;

namespace {

/// Random artifacts; the same seed gives the same one.
class Generator {
public:
  explicit Generator(uint32_t seed) : random(seed) {}

  Artifact artifact() {
    Artifact a;
    a.model = {text(), u32(), u32(), u32(), u32(), {}, list<int32_t>([&] { return i32(); })};
    if (below(2) == 0)
      a.model.bosToken = i32();
    a.pageBytes = u32();
    a.residents = list<ResidentWeight>([&] {
      return ResidentWeight{text(), shape(), format(), u64(), u64()};
    });
    a.moeLayers = list<MoeLayer>([&] { return moeLayer(); });
    a.kvSlots = list<KvSlot>([&] {
      return KvSlot{below(1 << 24), u32(), u32(), KvKind(below(3))};
    });
    a.stateSlots = list<StateSlot>([&] { return StateSlot{u32(), u32()}; });
    a.ropes = list<Rope>([&] {
      const auto frequencies = [&] { return list<float>([&] { return f32(); }); };
      return Rope{RopeStyle(below(2)), f32(), frequencies(), u32(), f32(), frequencies()};
    });
    a.programs = list<Program>([&] { return program(); });
    a.plans = list<Plan>([&] { return plan(); });
    a.provenance = list<std::pair<std::string, std::string>>([&] {
      return std::pair<std::string, std::string>{text(), text()};
    });
    if (below(2) == 0)
      a.measured = measured();
    if (below(2) == 0)
      a.chat = {list<NamedTemplate>([&] {
                  return NamedTemplate{text(), text()};
                }),
                list<std::pair<std::string, std::string>>([&] {
                  return std::pair<std::string, std::string>{text(), text()};
                })};
    if (below(2) == 0)
      a.sampling = {maybe(below(2) == 1), maybe(f32()), maybe(u32()),
                    maybe(f32()),         maybe(f32()), maybe(f32())};
    if (below(2) == 0)
      a.quickLoss = {f64(), f64(), f64(), u32(), u32()};
    return a;
  }

private:
  uint32_t below(uint32_t limit) { return uint32_t(random() % limit); }
  // Draws small, zero and the largest values more often than a uniform draw.
  uint64_t u64() {
    uint64_t value = uint64_t(random()) << 32 | random();
    return below(4) == 0 ? ~uint64_t(0) : value >> below(64);
  }
  template <typename Value> std::optional<Value> maybe(Value value) {
    return below(2) == 0 ? std::optional<Value>() : value;
  }
  uint32_t u32() { return uint32_t(u64()); }
  int32_t i32() { return int32_t(u32()); }
  float f32() { return float(i32()) / 1024; }
  double f64() { return double(i32()) / 3; }
  std::string text() {
    std::string value(below(20), 'a');
    for (char &character : value)
      character = char(below(256));
    return value;
  }
  template <typename T, typename Make> std::vector<T> list(Make make) {
    std::vector<T> values(below(5));
    for (T &value : values)
      value = make();
    return values;
  }
  MatrixShape shape() { return {u32(), u32()}; }
  WeightFormat format() {
    const uint32_t tables = below(3);
    return {WeightKind(below(uint32_t(kLastWeightKind) + 1)),
            u32(),
            u32(),
            tables == 1,
            below(2) == 1,
            tables == 2,
            below(2) == 1};
  }
  MoeLayer moeLayer() {
    auto slice = [&] {
      const WeightFormat gateUp = format();
      return Slice{{gateUp, below(2) == 0 ? gateUp : format()}, u64(), u64(), u64(), u64()};
    };
    auto expert = [&] { return Expert{u64(), u64(), list<Slice>(slice)}; };
    auto matrix = [&] { return ExpertMatrix{ExpertPart(below(3)), shape()}; };
    const GluActivation activation = {Activation(below(2)), float(below(99)), float(below(99))};
    return {u32(), activation, u32(), list<ExpertMatrix>(matrix), list<Expert>(expert)};
  }
  Plan plan() {
    auto numbers = [&] { return list<uint32_t>([&] { return u32(); }); };
    Plan p = {text(), u64(), u32(), u32(), u32(), numbers()};
    if (below(4) == 0) // May be empty.
      return p;
    p.preset = text();
    p.rules = {EvictionPolicy(below(8)), CacheSharing(below(2)), PromptSurvival(below(3)), {}};
    if (p.rules.sharing == CacheSharing::kOnePool && below(2) == 0)
      p.rules.upperPart = 1 + below(99);
    if (below(2) == 0)
      p.rules.weights = {u32(), u32(), u32(), 1 + below(9)};
    if (below(2) == 0)
      p.rules.exchange = {u32(), u32(), uint8_t(u32())};
    p.expertNorms = list<std::vector<uint32_t>>(numbers);
    p.pinned = list<std::vector<uint32_t>>(numbers);
    p.start = list<LayerStart>([&] { return LayerStart{numbers(), numbers()}; });
    p.startTokens = u32();
    p.prefetches = list<PrefetchRule>([&] {
      return PrefetchRule{Predictor(below(4)), uint8_t(u32()), uint16_t(u32()), uint16_t(u32()),
                          u32()};
    });
    if (below(2) == 0)
      p.forecast = {text(), u32(), u64(), u64(), f64(), f64(), f64(),           f64(),
                    f64(),  f64(), f64(), f64(), f64(), f64(), Origin(below(4))};
    if (below(2) == 0)
      p.miss = {MissAction(1 + below(kNames<MissAction>.size() - 1)), uint8_t(u32()), u32(), u32(),
                u32()};
    if (below(2) == 0)
      p.rules.baseSlices = p.miss.baseSlices();
    if (below(2) == 0)
      p.loss = {text(),
                f64(),
                f64(),
                f64(),
                f64(),
                f64(),
                u64(),
                u64(),
                u64(),
                u32(),
                list<PlanText>([&] {
                  return PlanText{text(), u64(), u64()};
                }),
                quantile()};
    p.reasons = list<PlanReason>([&] {
      return PlanReason{text(), text(), text(), Origin(below(4))};
    });
    return p;
  }
  std::optional<QuantileBound> quantile() {
    return maybe(QuantileBound{f64(), f64(), maybe(f64())});
  }
  Measured measured() {
    auto measuredText = [&] {
      return MeasuredText{text(),
                          u64(),
                          u64(),
                          list<uint32_t>([&] { return u32(); }),
                          list<double>([&] { return f64(); }),
                          list<double>([&] { return f64(); }),
                          maybe(f64()),
                          u64(),
                          maybe(f64())};
    };
    Measured m = {text(),        f64(), f64(),  f64(),  f64(), f64(), f64(), u64(), u64(), f64(),
                  below(2) == 1, u32(), text(), text(), u32(), u64(), u64(), {},    {},    {}};
    if (below(2) == 0) // On items rather than on windows.
      m.windowTokens = 0;
    m.itemOptions = list<std::pair<std::string, std::string>>([&] {
      return std::pair<std::string, std::string>{text(), text()};
    });
    m.candidates = list<MeasuredCandidate>([&] {
      return MeasuredCandidate{text(),       u64(),        u64(),        f64(),
                               maybe(f64()), maybe(f64()), maybe(f64()), below(2) == 1};
    });
    m.calibrationTexts = list<MeasuredText>(measuredText);
    m.acceptanceTexts = list<MeasuredText>(measuredText);
    m.quantile = quantile();
    return m;
  }
  Program program() {
    Program p;
    p.name = text();
    p.arenaBytesPerToken = u64();
    p.buffers = list<Buffer>([&] {
      return Buffer{BufferKind(below(uint32_t(kLastBufferKind) + 1)), u32(), u32(), u64(), u64()};
    });
    for (size_t i = 0; i < kInstructionKinds; ++i)
      p.instructions.push_back(instruction(i));
    p.layers = list<int32_t>([&] { return i32(); });
    return p;
  }
  Instruction instruction(size_t number) {
    Instruction made = emptyInstruction(number);
    describe(made, [&]<typename T>(FieldRole, const char *, T &field) {
      if constexpr (std::is_same_v<T, float>)
        field = f32();
      else if constexpr (std::is_same_v<T, bool>)
        field = below(2) == 1;
      else if constexpr (std::is_enum_v<T>)
        field = T(below(uint32_t(kLast<T>) + 1));
      else
        field = T(u32());
    });
    return made;
  }

  std::mt19937 random;
};

} // namespace

TEST_CASE("random descriptions survive a round trip") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Artifact written = Generator(seed).artifact();
    std::vector<std::byte> bytes = encodeManifest(written);
    Artifact read;
    Status status = decodeManifest(bytes, read);
    REQUIRE_MESSAGE(status.isOk(), "seed ", seed, ": ", status.message());
    CHECK_MESSAGE(read == written, "seed ", seed);
  }
}

TEST_CASE("the same description gives the same bytes") {
  for (uint32_t seed = 0; seed < 20; ++seed)
    CHECK(encodeManifest(Generator(seed).artifact()) == encodeManifest(Generator(seed).artifact()));
}

TEST_CASE("readers that do not know formats of down refuse an expert that has them") {
  Artifact artifact = tinyWiderDownArtifact();
  const std::vector<std::byte> bytes = encodeManifest(artifact);
  // Where `refines` of that expert's first slice is stored: it differs where the slice refines.
  artifact.moeLayers[1].experts[0].slices[0].format.gateUp.refines = true;
  const std::vector<std::byte> refining = encodeManifest(artifact);
  const auto [place, other] = std::mismatch(bytes.begin(), bytes.end(), refining.begin());
  REQUIRE(place != bytes.end());
  CHECK(*place == std::byte(2)); // Not 0 or 1, which is all that they know.
  for (uint32_t unmarked : {0, 1, 4}) {
    std::vector<std::byte> changed = bytes;
    changed[size_t(place - bytes.begin())] = std::byte(unmarked);
    Artifact read;
    const Status status = decodeManifest(changed, read);
    CHECK(status.message().find(strCat("refines is ", unmarked, ", expected 2 or 3")) !=
          std::string::npos);
  }
}

TEST_CASE("readers that do not know the Hadamard transform refuse a format that has it") {
  Artifact artifact = tinyHadamardArtifact();
  const auto format = [](Artifact &a) -> ExpertFormat & {
    return a.moeLayers[1].experts[3].slices[0].format;
  };
  const std::vector<std::byte> bytes = encodeManifest(artifact);
  // Where `has_offsets` of that slice is stored: it differs without the transform.
  format(artifact).gateUp.hasHadamard = format(artifact).down.hasHadamard = false;
  const std::vector<std::byte> without = encodeManifest(artifact);
  const auto differ = std::mismatch(bytes.begin(), bytes.end(), without.begin());
  const auto place = differ.first, other = differ.second;
  REQUIRE(place != bytes.end());
  CHECK(*place == std::byte(5)); // With offsets; they know 0, 1 and 2 alone.
  CHECK(*other == std::byte(1));
  const auto decoded = [&](uint32_t hasOffsets) {
    std::vector<std::byte> changed = bytes;
    changed[size_t(place - bytes.begin())] = std::byte(hasOffsets);
    Artifact read;
    Status status = decodeManifest(changed, read);
    return status.isOk() ? Result<WeightFormat>(format(read).gateUp) : status;
  };
  for (uint32_t hadamard : {0, 4})
    for (uint32_t offsets : {0, 1, 2}) {
      const Result<WeightFormat> read = decoded(hadamard + offsets);
      REQUIRE_MESSAGE(read.isOk(), read.status().message());
      CHECK(read->hasHadamard == (hadamard == 4));
      CHECK(read->hasOffsets == (offsets == 1));
      CHECK(read->hasByteScales == (offsets == 2));
    }
  for (uint32_t unknown : {3, 7, 8, 12, 255})
    CHECK(decoded(unknown).status().message().find(
              strCat("has_offsets is ", unknown, ", expected 0, 1 or 2, or 4, 5 or 6")) !=
          std::string::npos);
}
