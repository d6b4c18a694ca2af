"""--memory is a hard limit on the process: a container of exactly that size is never even touched."""
import cgroups
from support import DONE, E2eTest, pocket, program, run, smallest_budget

STEPS = 10


class BudgetTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.model = pocket("4")
        self.command = ("run", self.model, "-p", "The old man looked at", "-n", "24", "--temp", "0", "--ignore-eos")

    def test_every_budget_from_the_smallest_holds_in_a_container_of_its_size(self):
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        free = run("moert", *self.command)
        self.assertEqual(free.status, DONE, free.err)
        smallest = smallest_budget(*self.command)
        for step in range(STEPS):
            # Up to what the whole model needs: the smallest and the file, which holds everything once.
            budget = (smallest + self.model.stat().st_size * step // (STEPS - 1)) // 4096 * 4096
            budget = max(budget, cgroups.whole_pages(smallest))
            with self.subTest(budget=budget), cgroups.Group(budget) as group:
                cgroups.drop_page_cache()
                done = group.run([program("moert"), *map(str, self.command), "--memory", f"{budget}B"])
                self.assertEqual(done.returncode, DONE, done.stderr.decode()[-2000:])
                self.assertEqual(group.times_at_limit(), 0, f"peak {group.peak()} of {budget}")
                self.assertEqual(group.oom_kills(), 0)
                self.assertEqual(done.stdout.decode(), free.out)

    def test_one_byte_below_the_smallest_is_refused_with_the_smallest(self):
        smallest = smallest_budget(*self.command)
        size = r"bytes \(\d+\.\d+ MiB\)"
        self.refused("moert", *self.command, "--memory", f"{smallest - 1}B", mention=rf"--memory {smallest - 1} {size} are not "
                     rf"enough; the smallest budget that works is {smallest} {size}")
        self.expect(DONE, "moert", *self.command, "--memory", f"{smallest}B")

    def test_a_longer_context_needs_more(self):
        more = smallest_budget(*self.command, "--context", "2048")
        self.assertGreater(more, smallest_budget(*self.command, "--context", "64"))
