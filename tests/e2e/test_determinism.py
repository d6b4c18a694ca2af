"""Same inputs, same artifact bytes; an interrupted compile leaves no artifact and resumes to the same bytes."""
import re
import resource
import signal
import time
from pathlib import Path

import support
from support import DONE, FAILED, INTERRUPTED, POCKET, E2eTest, digest, pocket


class DeterminismTest(E2eTest):
    def compile(self, name, *flags, checkpoint=POCKET):
        output = self.scratch / name
        self.expect(DONE, "moec", "compile", checkpoint, "-o", output, *flags)
        return output

    def test_compiling_again_gives_the_same_bytes(self):
        first = digest(pocket("4"))
        for threads in (1, 2, 3):
            with self.subTest(threads=threads):
                self.assertEqual(digest(self.compile("again.moe", "--bits", 4, "--threads", threads)), first)

    def test_where_no_thread_can_be_started_the_bytes_are_the_same(self):
        output = self.scratch / "alone.moe"
        self.expect(DONE, "moec", "compile", POCKET, "-o", output, "--bits", 4, preexec_fn=support.without_threads)
        self.assertEqual(digest(output), digest(pocket("4")))

    def test_the_checkpoint_s_place_does_not_reach_the_artifact(self):
        moved = self.scratch / "elsewhere"
        moved.symlink_to(POCKET)
        self.assertEqual(digest(self.compile("moved.moe", "--bits", 4, checkpoint=moved)), digest(pocket("4")))

    def test_another_width_gives_other_bytes(self):
        self.assertNotEqual(digest(pocket("4")), digest(pocket("source")))


class InterruptTest(E2eTest):
    command = ("compile", POCKET, "--bits", "4", "--threads", "1")

    def interrupted_early_and_late(self, how, statuses):
        """Signals a compile at many moments; yields after each one that came before its end."""
        begun = time.monotonic()
        self.expect(DONE, "moec", *self.command, "-o", self.scratch / "whole.moe")
        whole = time.monotonic() - begun
        hit = 0
        for twentieth in range(1, 20, 3):
            output = self.scratch / f"cut-{twentieth}.moe"
            process = support.start("moec", *self.command, "-o", output)
            if support.interrupt(process, how, whole * twentieth / 20)[0] not in statuses:
                continue
            if not self.is_there_whole(output, self.scratch / "whole.moe"):
                hit += 1
                yield output
        self.assertGreater(hit, 0, "no signal came before the compile's end")

    def test_ctrl_c_leaves_no_artifact_and_resumes_to_the_same_bytes(self):
        # Before the handler is installed, the signal itself ends the process.
        for output in self.interrupted_early_and_late(signal.SIGINT, (INTERRUPTED, -signal.SIGINT)):
            self.expect(DONE, "moec", *self.command, "-o", output, "--resume")
            self.assertEqual(digest(output), digest(self.scratch / "whole.moe"))

    def test_a_killed_compile_leaves_no_artifact_and_resumes_to_the_same_bytes(self):
        for output in self.interrupted_early_and_late(signal.SIGKILL, (-signal.SIGKILL,)):
            self.expect(DONE, "moec", *self.command, "-o", output, "--resume")
            self.assertEqual(digest(output), digest(self.scratch / "whole.moe"))

    def test_a_resumed_one_that_fails_can_be_resumed_again(self):
        output = self.scratch / "failed.moe"
        partial = Path(f"{output}.partial")
        support.interrupt_at(support.start("moec", *self.command, "-o", output), signal.SIGINT, partial)
        if not Path(f"{partial}.journal").exists():
            self.skipTest("the compile was over before it could be interrupted")
        self.refused("moec", *self.command, "-o", output, mention=f"found the work of an interrupted command: {partial}; --resume")
        limit = (partial.stat().st_size + (256 << 10),) * 2
        done = support.run("moec", *self.command, "--resume", "-o", output,
                           preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, limit)))
        self.assertEqual(done.status, FAILED, done.err)
        self.assertRegex(done.err, rf"File too large; --resume continues from {re.escape(str(partial))}\n$")
        self.expect(DONE, "moec", *self.command, "--resume", "-o", output)
        self.assertEqual(digest(output), digest(pocket("4")))
        self.assertEqual([path.name for path in self.scratch.iterdir()], ["failed.moe"])

    def test_resuming_with_nothing_to_resume_compiles_anew(self):
        output = self.scratch / "new.moe"
        self.expect(DONE, "moec", *self.command, "-o", output, "--resume")
        self.assertEqual(digest(output), digest(pocket("4")))

    def test_a_finished_compile_leaves_only_the_artifact(self):
        folder = self.scratch / "alone"
        folder.mkdir()
        self.expect(DONE, "moec", *self.command, "-o", folder / "a.moe")
        self.assertEqual([path.name for path in folder.iterdir()], ["a.moe"])
