#include "runtime/memory/MemoryRoom.h"

#include <doctest/doctest.h>

using namespace moert;

constexpr uint64_t kMiB = 1 << 20;

static SystemMemory container(uint64_t limit, uint64_t room) {
  return {{limit, true}, {room, true}};
}

static MemoryAccount account() {
  MemoryAccount account;
  account.items = {{"heap", 3 * kMiB, true}, {"weights", 10 * kMiB}, {"expert cache", 20 * kMiB}};
  account.budgetBytes = 40 * kMiB;
  return account;
}

TEST_CASE("a budget up to the container's limit is accepted, one byte more is refused") {
  const SystemMemory system = container(14 * kMiB, 5 * kMiB);
  CHECK(checkBudgetLimit({14 * kMiB, {}}, system).isOk());
  const Status refused = checkBudgetLimit({14 * kMiB + 1, {}}, system);
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message() ==
        "a memory budget of 14680065 bytes (14.0 MiB): this container has 14680064 bytes "
        "(14.0 MiB); without a budget, what is free of it is used");
}

TEST_CASE("a fraction of the expert bytes is no number of bytes that a limit could be beside") {
  CHECK(checkBudgetLimit({0, 0.5}, container(1, 1)).isOk());
}

TEST_CASE("a refused budget names the machine or the container, whichever has too little") {
  SystemMemory machine{{kMiB, false}, {kMiB, false}};
  CHECK(checkBudgetLimit({2 * kMiB, {}}, machine).message().find("this machine") !=
        std::string::npos);
  CHECK(checkRoom(account(), machine).message().find("this machine") != std::string::npos);
}

TEST_CASE("loading has to have room for what the process does not hold before") {
  CHECK(account().loadedBytes() == 30 * kMiB);
  CHECK(checkRoom(account(), container(40 * kMiB, 30 * kMiB)).isOk());
  const Status refused = checkRoom(account(), container(40 * kMiB, 30 * kMiB - 1));
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message().find("loading takes 31457280 bytes (30.0 MiB)") != std::string::npos);
  CHECK(refused.message().find("has room for 31457279 bytes") != std::string::npos);
}

TEST_CASE("a larger account has to have room for the difference, a smaller one always has") {
  MemoryAccount larger = account();
  larger.items.back().bytes += 7 * kMiB;
  larger.budgetBytes = 47 * kMiB;
  CHECK(checkGrowth(account(), larger, container(50 * kMiB, 7 * kMiB)).isOk());
  CHECK(checkGrowth(larger, account(), container(50 * kMiB, 0)).isOk());
  const Status refused = checkGrowth(account(), larger, container(50 * kMiB, 7 * kMiB - 1));
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message() ==
        "a memory budget of 49283072 bytes (47.0 MiB) takes 7340032 bytes (7.00 MiB) more, this "
        "container has room for 7340031 bytes (7.00 MiB)");
}
