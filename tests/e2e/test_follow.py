"""--memory follow: the budget changes while tokens are generated, and the output does not."""
import json
import re
import socket
import statistics
import subprocess
import time
from pathlib import Path

import cgroups
from serving import Server
from support import DONE, REFUSED, E2eTest, pocket, program

TOKENS = 2000
PROMPT = "The old man looked at"


def resident_bytes(pid):
    """What a process has in memory, pages of files included."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


class PacedReader:
    """Reads what a process writes, a few tokens every four milliseconds; the process can be only a few tokens ahead."""

    def __enter__(self):
        self.reader, self.writer = socket.socketpair()
        self.writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        self.text = bytearray()
        return self

    def __exit__(self, *_):
        self.reader.close()
        self.writer.close()

    def begin(self):
        """The process has the other end; its end is the end of the text."""
        self.writer.close()

    def read(self):
        piece = self.reader.recv(8)
        self.text.extend(piece)
        time.sleep(0.004)
        return piece

    def read_to(self, length):
        while len(self.text) < length and self.read():
            pass

    def read_for(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.read():
            pass


class FollowTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.model = pocket("4")
        self.command = ("run", self.model, "-p", PROMPT, "-n", str(TOKENS), "--temp", "0", "--ignore-eos", "--threads", "1")

    def budget(self, memory):
        """The bytes of a budget in percent, in whole pages."""
        done = self.expect(DONE, "moert", *self.command[:5], "1", *self.command[6:], "--context", "2048", "--memory", memory,
                           "--json")
        return cgroups.whole_pages(json.loads(done.out)["budget_bytes"])

    def test_a_container_that_shrinks_and_grows_changes_the_budget_and_no_token(self):
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        half, quarter = self.budget("50%"), self.budget("25%")
        undisturbed = self.expect(DONE, "moert", *self.command, "--memory", "50%").out.encode()
        profile = self.scratch / "run.json"
        with cgroups.Group(half) as group, PacedReader() as reader:
            cgroups.drop_page_cache()
            process = subprocess.Popen([program("moert"), *map(str, self.command), "--memory", "follow", "--profile", profile],
                                       stdout=reader.writer, stderr=subprocess.PIPE, preexec_fn=group.join)
            reader.begin()
            reader.read_to(len(undisturbed) // 5)
            group.wish(quarter)  # What the process is to keep to; the limit follows.
            reader.read_for(0.2)
            resident = [resident_bytes(process.pid)]
            group.limit_to(quarter)
            reader.read_for(1.2)
            resident.append(resident_bytes(process.pid))
            self.assertLess(len(reader.text), len(undisturbed) * 4 // 5)
            group.limit_to(half)
            group.wish(half)
            reader.read_for(0.2)
            reader.read_to(len(undisturbed) + 1)
            error = process.communicate(timeout=300)[1].decode()
            self.assertEqual(process.returncode, DONE, error)
            self.assertEqual(group.oom_kills(), 0)
            self.assertEqual(group.times_at_limit(), 0, f"peak {group.peak()} of {half}")
        self.assertEqual(bytes(reader.text), undisturbed)
        for bytes_now in resident:
            self.assertLessEqual(bytes_now, quarter)
        self.report(json.loads(profile.read_text()), half, quarter)

    def report(self, profile, half, quarter):
        changes = profile["budget_changes"]
        self.assertEqual([change["reason"] for change in changes], ["a smaller limit"] + ["more room"] * (len(changes) - 1))
        self.assertLessEqual(changes[0]["budget_bytes"], quarter)
        self.assertGreater(changes[0]["budget_bytes"], quarter - quarter // 8)
        for before, after in zip(changes, changes[1:]):
            self.assertLess(before["budget_bytes"], after["budget_bytes"])
            self.assertLessEqual(after["budget_bytes"], before["budget_bytes"] * 17 // 16)
        self.assertLessEqual(changes[-1]["budget_bytes"], half)
        self.assertGreater(changes[-1]["accounted_bytes"], half - half // 8)
        times = {step["first_token"]: step["wall_ns"] for step in profile["steps"] if step["phase"] == "decode"}
        median = statistics.median(times.values())
        print(", ".join(f"{change['reason']}: its token took {times[change['first_token']] / median:.1f} medians of "
                        f"{median / 1e6:.2f} ms" for change in changes))

    def test_a_limit_below_the_smallest_budget_leaves_the_smallest(self):
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        with cgroups.Group(self.budget("50%")) as group:
            group.wish(1 << 20)
            done = group.run([program("moert"), *map(str, self.command[:5]), "16", "--memory", "follow"])
        self.assertEqual(done.returncode, REFUSED)
        self.assertRegex(done.stderr.decode(), r"a memory budget of 1048576 bytes .* the smallest budget that works is \d+")

    def test_a_server_s_budget_follows_its_container_and_its_answers_stay(self):
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        flags = ("--context", "512", "--sessions", "1", "--keep", "0", "--queue", "4", "--connections", "4")
        with Server(*flags, "--memory", "100%") as server:
            whole = cgroups.whole_pages(int(server.metric("moert_memory_budget_bytes")))
            expected = server.text(max_tokens=200, ignore_eos=True)["choices"]
        with Server(*flags, "--memory", "25%") as server:
            quarter = cgroups.whole_pages(int(server.metric("moert_memory_budget_bytes")))
        with cgroups.Group(whole) as group:
            cgroups.drop_page_cache()
            with Server(*flags, "--memory", "follow", preexec_fn=group.join) as server:
                before = server.metric("moert_memory_budget_bytes")
                self.assertGreater(before, quarter)
                self.assertEqual(server.text(max_tokens=200, ignore_eos=True)["choices"], expected)
                group.wish(quarter)
                server.wait_until("moert_memory_budget_bytes", lambda size: size <= quarter)
                group.limit_to(quarter)
                self.assertEqual(server.text(max_tokens=200, ignore_eos=True)["choices"], expected)
                group.limit_to(whole)
                group.wish(whole)
                server.wait_until("moert_memory_budget_bytes", lambda size: size > quarter)
                self.assertEqual(server.text(max_tokens=200, ignore_eos=True)["choices"], expected)
                self.assertEqual(server.end(), DONE)
            self.assertEqual((group.times_at_limit(), group.oom_kills()), (0, 0), f"peak {group.peak()} of {whole}")
        self.assertRegex(server.log, r"(?m)^budget .* -> .*: a smaller limit; plan ")

    def test_only_run_chat_and_serve_follow(self):
        for command in (("bench", self.model), ("eval", self.model, "--text", "x.txt"), ("logits", self.model, "--ids", "x")):
            self.refused("moert", *command, "--memory", "follow", mention="'follow' is an option of moert run, chat and serve")

    def test_without_limits_follow_is_the_default_budget(self):
        plain = self.expect(DONE, "moert", *self.command[:5], "32", "--json")
        follows = self.expect(DONE, "moert", *self.command[:5], "32", "--json", "--memory", "follow")
        self.assertEqual(json.loads(plain.out)["ids"], json.loads(follows.out)["ids"])
        self.assertEqual(json.loads(plain.out)["accounted_bytes"], json.loads(follows.out)["accounted_bytes"])
