// Which version runs.
#include "runtime/kernels/Kernels.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

using namespace moert;

TEST_CASE("the reference runs everywhere and says its name") {
  REQUIRE(isSupported(Isa::kReference));
  CHECK(*kernelsFor(Isa::kReference) == &referenceKernels());
  CHECK(referenceKernels().isa == Isa::kReference);
}

TEST_CASE("a supported instruction set gives its own table, complete") {
  for (Isa isa : builtIsas()) {
    if (!isSupported(isa))
      continue;
    const KernelTable &table = **kernelsFor(isa);
    CHECK(table.isa == isa);
    CHECK(std::string(table.name) == nameOf(isa));
    CHECK((table.quantizeRows && table.linearQuantized && table.linearFloat && table.linearRows));
    CHECK((table.gatherRow && table.addBias && table.norm && table.ropeTable && table.rope));
    CHECK((table.attend && table.siluMultiply && table.addScaled && table.gateRows));
    CHECK((table.combineRanks && table.softmax));
  }
}

TEST_CASE("an instruction set that is missing is refused with what there is") {
  // Whatever this runs on, one of them is another architecture's.
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

TEST_CASE("an instruction set is found by its name where the build has kernels for it") {
  for (Isa isa : builtIsas())
    CHECK(parseIsa(nameOf(isa)) == isa);
  CHECK_FALSE(parseIsa(""));
  CHECK_FALSE(parseIsa("avx"));
  CHECK((!parseIsa("avx2") || !parseIsa("neon")));
}

TEST_CASE("the best version is the last that is supported") {
  Isa best = bestKernels().isa;
  CHECK(isSupported(best));
  for (Isa isa : builtIsas())
    CHECK((!isSupported(isa) || isa <= best));
  // Who emulates a processor knows what it has.
  if (const char *expected = std::getenv("MOERT_TEST_BEST_ISA"))
    CHECK(std::string(bestKernels().name) == expected);
}
