"""--memory is a hard limit on the process: a container of exactly that size is never even touched."""
import subprocess
import sys

import cgroups
from support import DONE, POCKET, REFUSED, E2eTest, plain_text, pocket, program, run, smallest_budget

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
            # Up to the need of the whole model: the smallest budget plus the file, which holds everything once.
            budget = (smallest + self.model.stat().st_size * step // (STEPS - 1)) // 4096 * 4096
            budget = max(budget, cgroups.whole_pages(smallest))
            with self.subTest(budget=budget), cgroups.Group(budget) as group:
                cgroups.drop_page_cache()
                done = group.run([program("moert"), *map(str, self.command), "--memory", f"{budget}B"])
                self.assertEqual(done.returncode, DONE, done.stderr.decode()[-2000:])
                self.assertEqual(group.times_at_limit(), 0, f"peak {group.peak()} of {budget}")
                self.assertEqual(group.oom_kills(), 0)
                self.assertEqual(done.stdout.decode(), free.out)

    def test_a_percentage_is_said_in_bytes_with_what_else_is_needed(self):
        size = r"[\d.]+ [KM]iB"
        done = self.expect(DONE, "moert", *self.command, "--memory", "25%")
        self.assertRegex(done.err, rf"budget     25% of the experts: {size}, and {size} for the rest with \d+ tokens of context: program and libraries {size}, .*; {size} in all\n")
        for arguments in (("--quiet", "--memory", "25%"), ("--memory", "1GiB")):
            self.assertNotIn("of the experts", self.expect(DONE, "moert", *self.command, *arguments).err)
        for planned in (POCKET, self.model):
            said = " ".join(self.expect(DONE, "moec", "plan", planned, "--memory", "25%").out.split())
            self.assertIn("25% is what moert run needs with 2048 tokens of context. moert chat and moert serve need more", said)
        self.assertNotIn("what moert run needs", self.expect(DONE, "moec", "plan", POCKET, "--memory", "1GiB").out)

    def test_one_byte_below_the_smallest_is_refused_with_the_smallest(self):
        smallest = smallest_budget(*self.command)
        size = r"bytes \(\d+\.\d+ MiB\)"
        self.refused("moert", *self.command, "--memory", f"{smallest - 1}B", mention=rf"a memory budget of {smallest - 1} {size} is "
                     rf"not enough; the smallest budget that works is {smallest} {size}")
        self.expect(DONE, "moert", *self.command, "--memory", f"{smallest}B")

    def test_a_budget_beyond_the_container_is_refused_with_what_there_is(self):
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        limit = cgroups.whole_pages(smallest_budget(*self.command) + (1 << 20))
        text = self.scratch / "text.txt"
        text.write_text(plain_text("validation").read_text()[:4000])
        evaluate = ("eval", self.model, "--text", text, "--window", "64")
        there = rf"this container has {limit} bytes"
        for command, memory, most, mention in (
                (self.command, "1GiB", limit, there), (self.command, f"{limit + 1}B", limit, there),
                (self.command, "100%", 12 << 20, r"this container has room for \d+ bytes"),
                (evaluate, "1GiB", limit, there), ((*evaluate, "--reference", pocket("source")), "1GiB", limit, there)):
            with self.subTest(command=command[0], memory=memory), cgroups.Group(most) as group:
                cgroups.drop_page_cache()
                done = group.run([program("moert"), *map(str, command), "--memory", memory])
                error = done.stderr.decode()
                self.assertEqual((done.returncode, done.stdout), (REFUSED, b""), error[-2000:])
                self.assertRegex(error, mention)
                self.assertEqual(group.oom_kills(), 0)

    def test_a_budget_is_refused_where_other_processes_hold_the_memory(self):
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        taken = 256 << 20
        smallest = cgroups.whole_pages(smallest_budget(*self.command))
        with cgroups.Group(smallest + taken) as group:
            holder = subprocess.Popen([sys.executable, "-c", f"held = b'x' * {taken}; print(flush=True); input()"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=group.join)
            holder.stdout.readline()
            done = group.run([program("moert"), *map(str, self.command), "--memory", f"{smallest + (32 << 20)}B"])
            holder.communicate(b"\n")
        self.assertEqual(done.returncode, REFUSED, done.stderr.decode()[-2000:])
        self.assertRegex(done.stderr.decode(), r"this container has room for \d+ bytes")

    def test_a_budget_beyond_the_machine_is_refused_with_what_there_is(self):
        total = next(int(line.split()[1]) * 1024 for line in open("/proc/meminfo") if line.startswith("MemTotal:"))
        self.refused("moert", *self.command, "--memory", f"{total + 1}B", mention=r"this (machine|container) has \d+ bytes")

    def test_a_longer_context_needs_more(self):
        more = smallest_budget(*self.command, "--context", "2048")
        self.assertGreater(more, smallest_budget(*self.command, "--context", "64"))
