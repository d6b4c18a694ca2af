// Which version runs.
#include "runtime/kernels/Kernels.h"

#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("the reference runs everywhere and says its name") {
  REQUIRE(isSupported(Isa::kReference));
  CHECK(*kernelsFor(Isa::kReference) == &referenceKernels());
  CHECK(referenceKernels().isa == Isa::kReference);
}

TEST_CASE("a supported instruction set gives its own table, complete") {
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx512}) {
    if (!isSupported(isa))
      continue;
    const KernelTable &table = **kernelsFor(isa);
    CHECK(table.isa == isa);
    CHECK((table.quantizeRows && table.linearQuantized && table.linearFloat && table.linearRows));
    CHECK((table.gatherRow && table.addBias && table.norm && table.ropeTable && table.rope));
    CHECK((table.attend && table.siluMultiply && table.addScaled && table.gateRows));
    CHECK((table.combineRanks && table.softmax));
  }
}

TEST_CASE("an instruction set that is missing is refused with what there is") {
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isSupported(isa)) {
      MESSAGE("SKIPPED: this processor has it");
      continue;
    }
    auto table = kernelsFor(isa);
    REQUIRE_FALSE(table.isOk());
    CHECK(table.status().code() == StatusCode::kInvalidInput);
    CHECK(table.status().message().find("reference") != std::string::npos);
  }
}

TEST_CASE("the best version is the widest that is supported") {
  Isa best = bestKernels().isa;
  CHECK(isSupported(best));
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx512})
    CHECK((!isSupported(isa) || isa <= best));
}
