"""A work directory or a partial artifact that one command leaves, and another command with the same output."""
import json
import random
import signal

import support
from support import DONE, REFUSED, E2eTest, artifact, copied, digest
from test_stop import with_special

PLAIN = ("--bits", "4")
DOCUMENTS = 80  # Each a little longer than a window.


class LeftWorkTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.output = self.scratch / "out.moe"
        self.work = self.scratch / "out.moe.work"
        self.inputs = self.scratch / "inputs"
        self.inputs.mkdir()
        self.text = self.inputs / "text.jsonl"
        letters = random.Random(26)
        self.text.write_text("".join(json.dumps({"text": "".join(letters.choices("abcdefgh ", k=600))}) + "\n" for _ in range(DOCUMENTS)))

    def left(self):
        return sorted(path.name for path in self.scratch.iterdir() if path != self.inputs)

    def accurate(self, *flags, loss="20%"):
        return ("compile", with_special(), "-o", self.output, "--accuracy-loss", loss, "--calibration-text", self.text,
                "--calibration-tokens", 1024, "--search-windows", 10, "--solver", "uniform", *flags)

    def kept(self):
        return {path.name: digest(path) for path in self.work.iterdir() if path.is_file()}

    def killed(self, *command, at):
        status, error = support.interrupt_at(support.start("moec", *map(str, command)), signal.SIGKILL, at)
        self.assertEqual(status, -signal.SIGKILL, error)

    def killed_accurately(self):
        self.killed(*self.accurate(), at=self.work / "reference.moe")
        self.assertEqual(self.left(), ["out.moe.work"])

    def test_a_plain_compile_names_the_work_directory_and_keeps_it(self):
        self.killed_accurately()
        kept = self.kept()
        done = self.expect(DONE, "moec", "compile", with_special(), "-o", self.output, *PLAIN)
        self.assertIn(f"{self.work} was left by an interrupted command", done.err)
        self.assertEqual(self.left(), ["out.moe", "out.moe.work"])
        self.assertEqual(self.kept(), kept)
        self.assertEqual(digest(self.output), digest(artifact(with_special(), *PLAIN)))
        self.expect(DONE, "moec", *self.accurate("--resume"))
        self.assertEqual(self.left(), ["out.moe"])

    def test_replan_does_the_same(self):
        self.killed_accurately()
        done = self.expect(DONE, "moec", "replan", artifact(with_special(), *PLAIN), "-o", self.output, "--memory", "50%")
        self.assertIn(f"{self.work} was left by an interrupted command", done.err)
        self.assertEqual(self.left(), ["out.moe", "out.moe.work"])

    def test_a_plain_compile_that_is_refused_leaves_the_work_directory(self):
        self.killed_accurately()
        self.expect(REFUSED, "moec", "compile", with_special(), "-o", self.output, *PLAIN, "--memory", "1KiB")
        self.assertEqual(self.left(), ["out.moe.work"])
        self.assertIn("reference.moe", [path.name for path in self.work.iterdir()])

    def test_resuming_without_the_options_is_refused_and_the_work_directory_stays(self):
        self.killed_accurately()
        self.refused("moec", "compile", with_special(), "-o", self.output, *PLAIN, "--resume",
                     mention="out.moe.work was left by another command.*--resume with the options of that command")
        self.assertEqual(self.left(), ["out.moe.work"])
        self.expect(DONE, "moec", *self.accurate("--resume"))
        self.assertEqual(self.left(), ["out.moe"])

    def test_inputs_in_the_work_directory_are_refused(self):
        self.work.mkdir()
        (self.work / "moec.lock").touch()
        source = copied(artifact(with_special(), *PLAIN), self.work)
        self.refused("moec", "replan", source, "-o", self.output, "--memory", "50%", mention="copy.moe lies in .*out.moe.work")
        self.assertTrue(source.exists())

    def test_a_compile_for_a_target_keeps_what_a_plain_one_left(self):
        partial = self.scratch / "out.moe.partial"
        for loss, status, left in (("20%", DONE, ["out.moe"]), ("0.0001%", support.FAILED, ["out.moe.work"])):
            with self.subTest(loss=loss):
                # What a killed compile leaves, a journal of another plan.
                partial.write_bytes(bytes(4096))
                (self.scratch / "out.moe.partial.journal").write_text("moec-journal 1 0123456789abcdef\n")
                for flags in (), ("--resume",):
                    self.refused("moec", *self.accurate(*flags, loss=loss), mention=f"found the work of an interrupted command: {partial}")
                self.assertEqual(self.left(), ["out.moe.partial", "out.moe.partial.journal"])
                self.expect(status, "moec", *self.accurate("--restart", loss=loss))
                self.assertEqual(self.left(), left)
                self.expect(DONE, "moec", *self.accurate("--resume"))
                self.output.unlink()

    def test_work_is_kept_without_resume(self):
        self.killed_accurately()
        kept = self.kept()
        for command in self.accurate(), ("calibrate", with_special(), "-o", self.output, "--calibration-text", self.text):
            self.refused("moec", *command, mention=f"found the work of an interrupted command: {self.work}; --resume .*--restart")
        self.assertEqual(self.kept(), kept)
        self.refused("moec", *self.accurate("--resume", "--restart"), mention="--re(sume|start) excludes --re(sume|start)")
        self.expect(DONE, "moec", *self.accurate("--restart"))
        self.assertEqual(self.left(), ["out.moe"])
