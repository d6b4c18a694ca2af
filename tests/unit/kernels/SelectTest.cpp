// Selection of the kernels.
#include "runtime/exec/Kernels.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

using namespace moert;

TEST_CASE("the reference runs everywhere and has its name") {
  REQUIRE(isSupported(Isa::kReference));
  CHECK(*kernelsFor(Isa::kReference) == &referenceKernels());
  CHECK(referenceKernels().isa == Isa::kReference);
}

TEST_CASE("a supported instruction set has its own, complete table") {
  for (Isa isa : builtIsas()) {
    if (!isSupported(isa))
      continue;
    const KernelTable &table = **kernelsFor(isa);
    CHECK(table.isa == isa);
    CHECK(std::string(table.name) == nameOf(isa));
    CHECK((table.quantizeRows && table.linearQuantized && table.linearFloat && table.linearRows));
    CHECK((table.gatherRow && table.addBias && table.norm && table.ropeTable && table.rope));
    CHECK((table.attend && table.siluMultiply && table.clampedSwiglu && table.addScaled &&
           table.gateRows));
    CHECK((table.combineRanks && table.softmax && table.sigmoid && table.clamp));
    CHECK((table.geluTanhMultiply && table.scale && table.softCap));
  }
}

TEST_CASE("the refusal of an unsupported instruction set lists the supported ones") {
  // At least one of them belongs to another architecture.
  for (Isa isa : {Isa::kAvx512, Isa::kNeon}) {
    if (isSupported(isa))
      continue;
    auto table = kernelsFor(isa);
    REQUIRE_FALSE(table.isOk());
    CHECK(table.status().code() == StatusCode::kInvalidInput);
    CHECK(table.status().message().find(nameOf(isa)) != std::string::npos);
    CHECK(table.status().message().find("reference") != std::string::npos);
  }
}

TEST_CASE("an instruction set is found by its name if the build has kernels for it") {
  for (Isa isa : builtIsas())
    CHECK(parseIsa(nameOf(isa)) == isa);
  CHECK_FALSE(parseIsa(""));
  CHECK_FALSE(parseIsa("avx"));
  CHECK((!parseIsa("avx2") || !parseIsa("neon")));
}

TEST_CASE("the best version is the last supported one") {
  Isa best = bestKernels().isa;
  CHECK(isSupported(best));
  for (Isa isa : builtIsas())
    CHECK((!isSupported(isa) || isa <= best));
  // Set by whoever emulates a processor and so has its instruction set.
  if (const char *expected = std::getenv("MOERT_TEST_BEST_ISA"))
    CHECK(std::string(bestKernels().name) == expected);
}
