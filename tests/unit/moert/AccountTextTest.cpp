// The table of what a process will use.
#include "tools/moert/LoadedModel.h"

#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("the account has exact bytes where its rows have room for them") {
  MemoryAccount account;
  account.items = {{"weights", 3 << 20}, {"nothing", 0}, {"expert cache", 512}};
  account.budgetBytes = 4 << 20;
  const std::string wide = "memory\n"
                           "  weights                            3145728 B   3.00 MiB\n"
                           "  expert cache                           512 B      512 B\n"
                           "  total                              3146240 B   3.00 MiB\n"
                           "  budget                             4194304 B   4.00 MiB\n";
  CHECK(cli::accountText(account, "memory", 0) == wide);
  CHECK(cli::accountText(account, "memory", 57) == wide);
  CHECK(cli::accountText(account, "memory", 40) == "memory\n"
                                                   "  weights                    3.00 MiB\n"
                                                   "  expert cache                  512 B\n"
                                                   "  total                      3.00 MiB\n"
                                                   "  budget                     4.00 MiB\n");
}
