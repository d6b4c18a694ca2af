"""moec calibrate: the same profile whatever interrupts it, however many threads and however little memory."""
import json
import re
import signal
import subprocess
import time
from pathlib import Path

import cgroups
import support
from support import DATA, DONE, FAILED, INTERRUPTED, POCKET, REFUSED, E2eTest, digest, program, run

TEXTS = (support.documents("validation", 60), support.documents("validation", 60, 60))
TOKENS = 4096


class CalibrateTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.command = ("calibrate", POCKET, "--calibration-text", *TEXTS, "--tokens", TOKENS)

    def calibrated(self, name, *flags):
        output = self.scratch / name
        self.expect(DONE, "moec", *self.command, *flags, "-o", output)
        return output


class ProfileTest(CalibrateTest):
    def test_threads_do_not_change_a_byte_and_a_seed_does(self):
        one = self.calibrated("one", "--threads", "1")
        self.assertEqual(digest(one), digest(self.calibrated("two", "--threads", "2")))
        self.assertNotEqual(digest(one), digest(self.calibrated("other", "--seed", "1")))

    def test_only_the_profile_is_left(self):
        folder = self.scratch / "alone"
        folder.mkdir()
        self.expect(DONE, "moec", *self.command, "-o", folder / "p")
        self.assertEqual([path.name for path in folder.iterdir()], ["p"])

    def test_inspect_says_what_was_seen(self):
        profile = self.calibrated("seen")
        seen = json.loads(self.expect(DONE, "moec", "inspect", profile, "--json").out)
        self.assertEqual((seen["tokens"], seen["window_tokens"]), (TOKENS, 512))
        self.assertEqual([text["name"] for text in seen["texts"]], [text.name for text in TEXTS])
        self.assertEqual(sum(text["windows"] for text in seen["texts"]), TOKENS // 512)
        for layer in seen["moe_layers"]:
            self.assertEqual(sum(layer["counts"]), TOKENS * layer["top_k"])
            self.assertGreater(layer["entropy_bits"], 0)
        page = self.expect(DONE, "moec", "inspect", profile).out
        for word in (TEXTS[0].name, "entropy", "most used"):
            self.assertIn(word, page)

    def test_a_broken_profile_is_refused(self):
        profile = self.calibrated("broken")
        whole = profile.read_bytes()
        profile.write_bytes(whole[:-1])
        self.refused("moec", "inspect", profile, mention="cut short")
        profile.write_bytes(whole[:100] + b"\1" + whole[101:])
        self.refused("moec", "inspect", profile, mention="damaged")


# What the process holds before its account differs from run to run by the pages that small objects lie on: by 35 in 100 runs.
FEW_PAGES = 64 * 4096


class MemoryTest(CalibrateTest):
    def smallest(self):
        """The smallest budget that a refusal names."""
        refused = run("moec", *self.command, "--memory", "20MiB", "-o", self.scratch / "none")
        found = re.search(r"smallest\D*(\d+) bytes", refused.err)
        self.assertEqual(refused.status, REFUSED, refused.err)
        self.assertTrue(found, refused.err)
        return int(found[1])

    def test_the_smallest_budget_is_the_same_in_every_run(self):
        named = [self.smallest() for _ in range(5)]
        self.assertLessEqual(max(named) - min(named), FEW_PAGES, named)

    def test_the_smallest_budget_gives_the_same_bytes_in_a_container_of_its_size(self):
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        whole = digest(self.calibrated("whole"))
        smallest = self.smallest() + FEW_PAGES
        for budget in (smallest, smallest * 3 // 2):
            output = self.scratch / f"at-{budget}"
            with self.subTest(budget=budget), cgroups.Group(budget // 4096 * 4096) as group:
                cgroups.drop_page_cache()
                done = group.run([program("moec"), *map(str, self.command), "--memory", f"{budget // 4096 * 4096}B",
                                  "-o", str(output)])
                self.assertEqual(done.returncode, DONE, done.stderr.decode()[-2000:])
                # Files are read and written through the page cache, which is reclaimed at the limit; other memory beyond it kills the process.
                self.assertEqual(group.oom_kills(), 0)
                self.assertEqual(digest(output), whole)


class InterruptTest(CalibrateTest):
    def interrupt(self, output, delay, how, *flags):
        return support.interrupt(support.start("moec", *self.command, *flags, "-o", output), how, delay)[0]

    def interrupted(self, how, statuses):
        """Interrupts at many moments, some of them twice; each time the rest gives the whole's bytes."""
        begun = time.monotonic()
        whole = self.calibrated("whole")
        took = time.monotonic() - begun
        hit = 0
        for tenth in (1, 3, 5, 7, 8):
            output = self.scratch / f"cut-{tenth}"
            if self.interrupt(output, took * tenth / 10, how) not in statuses:
                continue
            if self.is_there_whole(output, whole):
                continue
            hit += 1
            self.interrupt(output, took / 4, how, "--resume")
            self.expect(DONE, "moec", *self.command, "-o", output, "--resume")
            self.assertEqual(digest(output), digest(whole))
            self.assertEqual([p.name for p in self.scratch.glob(f"{output.name}*")], [output.name])
        self.assertGreater(hit, 0, "no signal came before the end")

    def test_ctrl_c_leaves_no_profile_and_resumes_to_the_same_bytes(self):
        self.interrupted(signal.SIGINT, (INTERRUPTED, -signal.SIGINT))

    def test_ctrl_c_names_what_it_leaves_and_how_to_go_on(self):
        output = self.scratch / "cut"
        # Before the reference is made, and after the first segment, when the journal appears.
        for mark, flags in (("cut.work", ()), ("cut.partial.journal", ("--resume",))):
            (self.scratch / "cut.partial.journal").unlink(missing_ok=True)  # Left if a signal came late.
            started = support.start("moec", *self.command, *flags, "-o", output)
            status, error = support.interrupt_at(started, signal.SIGINT, self.scratch / mark)
            self.assertEqual(status, INTERRUPTED, error)
            named = error[error.index("interrupted; --resume continues from ") + 37:].strip().split(", ")
            self.assertEqual(sorted(named), sorted(str(path) for path in self.scratch.iterdir()))
        self.assertEqual(len(named), 4)
        self.expect(DONE, "moec", *self.command, "--resume", "-o", output)
        self.assertEqual([path.name for path in self.scratch.iterdir()], ["cut"])

    def test_a_killed_calibration_leaves_no_profile_and_resumes_to_the_same_bytes(self):
        self.interrupted(signal.SIGKILL, (-signal.SIGKILL,))

    def test_a_run_that_starts_over_is_the_one_that_is_gone_on_with(self):
        output, journal = self.killed_with_journal()
        self.refused("moec", *self.command, "--seed", 5, "-o", output, mention="found the work of an interrupted command.*--restart")
        self.assertTrue(journal.exists())
        started = support.start("moec", *self.command, "--seed", 5, "--restart", "-o", output)
        status, error = support.interrupt_at(started, signal.SIGINT, self.scratch / "cut.work/reference.moe.partial")
        self.assertEqual(status, INTERRUPTED, error)
        self.assertRegex(error, f"--resume continues from {output}.work\n")
        self.expect(DONE, "moec", *self.command, "--seed", 5, "--resume", "-o", output)
        self.assertEqual([path.name for path in self.scratch.iterdir()], ["cut"])

    def test_what_is_damaged_is_refused_with_what_helps(self):
        output, _ = self.killed_with_journal()
        for name in ("cut.partial.journal", "cut.partial.states"):
            with self.subTest(name):
                path = self.scratch / name
                whole = path.read_bytes()
                path.write_bytes(whole[:len(whole) // 2] if name.endswith("journal") else whole[:100])
                self.refused("moec", *self.command, "--resume", "-o", output, mention=f"{name}.*; --restart begins anew")
                path.write_bytes(whole)
        self.expect(DONE, "moec", *self.command, "--resume", "-o", output)

    def killed_at(self, name):
        """A calibration that is killed once there is such a file: output, journal."""
        output = self.scratch / "cut"
        support.interrupt_at(support.start("moec", *self.command, "-o", output), signal.SIGKILL, self.scratch / name)
        if output.exists():
            self.skipTest("the calibration was over before it could be killed")
        return output, self.scratch / "cut.partial.journal"

    def killed_with_journal(self):
        """Late enough that the journal exists, which is written after the first segment."""
        return self.killed_at("cut.partial.journal")

    def test_what_a_kill_behind_the_renaming_leaves_is_in_nobody_s_way(self):
        output, journal = self.killed_with_journal()
        left = journal.read_bytes()
        self.expect(DONE, "moec", *self.command, "--resume", "-o", output)
        whole = digest(output)
        journal.write_bytes(left)
        self.expect(DONE, "moec", *self.command, "--resume", "-o", output)
        self.assertEqual(digest(output), whole)
        self.assertEqual([path.name for path in self.scratch.iterdir()], ["cut"])

    def test_what_there_is_to_go_on_from_outlives_a_failure(self):
        self.outlives_a_failure("cut.partial.journal")

    def test_what_a_failed_run_has_finished_is_gone_on_with(self):
        self.outlives_a_failure("cut.partial")  # After the reference, before anything is in the journal.

    def outlives_a_failure(self, name):
        output, journal = self.killed_at(name)
        if (self.scratch / "cut.partial").stat().st_size > 12 << 20:
            self.skipTest("the calibration was nearly over before it was killed")
        if name == "cut.partial":
            journal.unlink(missing_ok=True)  # It may have appeared after the wait.
        # The profile grows past this, what is kept beside it does not.
        limited = ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", "prlimit", f"--fsize={15 << 20}"]
        command = [program("moec"), *map(str, self.command), "--resume", "-o", str(output)]
        done = subprocess.run([*limited, *command], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertRegex(done.stderr, f"File too large; --resume continues from {output}.work, .*{re.escape(journal.name)}\n")
        self.assertTrue(journal.exists())
        done = self.expect(DONE, "moec", *self.command, "--resume", "-o", output)
        self.assertRegex(done.err, "resuming after [1-9]")

    def test_another_seed_does_not_go_on_with_what_was_left(self):
        output, _ = self.killed_with_journal()
        self.refused("moec", *self.command, "--seed", "5", "--resume", "-o", output, mention="--restart begins anew")
        self.expect(DONE, "moec", *self.command, "--resume", "-o", output)


class RefusalTest(CalibrateTest):
    def refuses(self, text, mention):
        output = self.scratch / "none"
        self.refused("moec", "calibrate", POCKET, "--calibration-text", text, "-o", output, mention=mention)
        self.assertEqual([p.name for p in self.scratch.glob("none*")], [])

    def test_a_folder_in_the_place_of_the_work_directory_is_refused_and_stays(self):
        kept = self.scratch / "out.work" / "kept"
        kept.parent.mkdir()
        kept.write_text("text " * 500)
        command = ("moec", *self.command, "-o", self.scratch / "out")
        self.refused(*command, mention="out.work exists and was not made by moec")
        self.refused(*command, "--calibration-text", kept, mention="lies in .*out.work")
        self.assertTrue(kept.exists())

    def test_texts_that_cannot_be_used_are_refused_in_words(self):
        text = self.scratch / "text.txt"
        self.refuses(text, "text.txt")
        text.write_bytes(b"")
        self.refuses(text, "the text is empty, expected at least a window of 512 tokens")
        text.write_text("Too short for a window.")
        self.refuses(text, r"\d+ tokens, expected at least a window of 512")
        text.write_bytes(b"broken \xff\xfe " * 5000)
        self.refuses(text, "UTF-8")

    def test_fewer_windows_than_texts_are_refused_with_both(self):
        self.refused("moec", "calibrate", POCKET, "--calibration-text", *TEXTS, "--tokens", "512", "-o",
                     self.scratch / "none", mention=f"{len(TEXTS)} calibration texts for 1 windows")

    def test_a_profile_over_its_own_text_is_refused(self):
        text = self.scratch / "text.txt"
        text.write_bytes(TEXTS[0].read_bytes())
        self.refused("moec", "calibrate", POCKET, "--calibration-text", text, "-o", text)
        self.assertEqual(text.read_bytes(), TEXTS[0].read_bytes())
