"""The accuracy stored in an artifact: moec inspect shows it, and moert eval measures it again without the reference."""
import functools
import json
import os
import pty
import re
import subprocess

from support import DONE, POCKET, SCRATCH, E2eTest, documents, pocket, program, run

@functools.cache
def accepted():
    """An artifact that a loss was accepted for, and the texts that it was accepted on."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    calibration = [documents("calibration", 40), documents("calibration", 40, 40)]
    acceptance = [documents("acceptance", 32), documents("acceptance", 32, 32)]
    path = SCRATCH / "accepted.moe"
    path.unlink(missing_ok=True)
    done = run("moec", "compile", POCKET, "-o", path, "--accuracy-loss", "40%", "--calibration-text", *calibration,
               "--eval-text", *acceptance, "--solver", "uniform", "--quantizer", "nearest", "--search-windows", "10",
               "--calibration-tokens", "1024")
    if done.status != DONE:
        raise AssertionError(f"moec compile --accuracy-loss: exit {done.status}\n{done.err[-4000:]}")
    return path, acceptance


class MeasuredTest(E2eTest):
    def said(self):
        path, _ = accepted()
        said = json.loads(self.expect(DONE, "moec", "inspect", path, "--json").out)["measured"]
        self.documented(said, "docs/inspect.md")
        return said

    def test_eval_gives_the_accepted_loss_without_the_reference(self):
        path, texts = accepted()
        done = self.expect(DONE, "moert", "eval", path, "--text", *reversed(texts), "--json")
        self.assertIn("losses that the artifact carries", done.err)
        found, said = json.loads(done.out), self.said()
        self.assertEqual(found["loss"], said["loss"])
        self.assertEqual(found["upper_bound"], said["upper_bound"])
        self.assertEqual(found["confidence"], said["confidence"])
        self.assertEqual(found["loss_windows"], found["windows"])
        self.assertAlmostEqual(found["value"] / found["reference"] - 1, found["loss"], places=12)
        self.assertNotIn("kl", found)

    def test_beside_the_reference_itself_the_loss_is_the_same(self):
        path, texts = accepted()
        found = json.loads(self.expect(DONE, "moert", "eval", path, "--text", *texts, "--reference", pocket("source"),
                                       "--json").out)
        said = self.said()
        self.assertEqual(found["loss"], said["loss"])
        # These are of the search's text, which is of the same kind: no acceptance test has the rows of the reference.
        self.assertGreater(said["kl_nats"], 0.5 * found["kl"])
        self.assertLess(said["kl_nats"], 2 * found["kl"])
        self.assertGreater(said["top_disagreement"], 0.5 * (1 - found["top1"]))
        self.assertLess(said["top_disagreement"], 2 * (1 - found["top1"]))

    def test_a_text_of_other_content_has_no_loss(self):
        path, texts = accepted()
        other = self.scratch / texts[0].name
        other.write_text(texts[0].read_text() + json.dumps({"text": "One line more."}) + "\n")
        done = self.expect(DONE, "moert", "eval", path, "--text", other, "--json")
        self.assertIn("no loss: its content", done.err)
        self.assertNotIn("loss", json.loads(done.out))

    def test_other_windows_have_no_loss(self):
        path, texts = accepted()
        done = self.expect(DONE, "moert", "eval", path, "--text", texts[0], "--window", "256", "--json")
        self.assertIn("of windows of 512 tokens", done.err)
        self.assertNotIn("loss", json.loads(done.out))

    def test_an_artifact_that_carries_no_losses_is_measured_as_ever(self):
        _, texts = accepted()
        done = self.expect(DONE, "moert", "eval", pocket("4"), "--text", texts[0], "--json")
        self.assertNotIn("no loss", done.err)
        self.assertNotIn("loss", json.loads(done.out))

    def test_other_metrics_need_a_reference(self):
        path, texts = accepted()
        self.refused("moert", "eval", path, "--text", texts[0], "--metric", "kl", mention="--reference")

    def test_inspect_names_the_texts_and_what_was_promised(self):
        path, texts = accepted()
        page = self.expect(DONE, "moec", "inspect", path).out
        self.assertIn("loss in perplexity of at most 40.00%", page)
        for text in texts:
            self.assertRegex(page, rf"(?m)^  {re.escape(text.name)} +{text.stat().st_size} +[0-9a-f]{{16}} +\d+ +\d\.\d\d% +\d\.\d\d%  acceptance$")
        self.assertRegex(page, r"(?m)^  uniform .*  chosen$")


class ColourTest(E2eTest):
    def page_on_a_terminal(self, **environment):
        ours, theirs = pty.openpty()
        try:
            shown = subprocess.Popen([program("moec"), "inspect", str(pocket("4"))], stdout=theirs,
                                     env={**os.environ, "TERM": "xterm-256color", **environment})
            os.close(theirs)
            page = b""
            try:
                while part := os.read(ours, 4096):
                    page += part
            except OSError:
                pass  # How a terminal ends when nobody holds its other side any more.
            self.assertEqual(shown.wait(timeout=60), DONE)
        finally:
            os.close(ours)
        return page.decode().replace("\r\n", "\n")

    def test_widths_are_coloured_on_a_terminal_and_the_digits_say_the_same(self):
        plain = self.expect(DONE, "moec", "inspect", pocket("4")).out
        self.assertNotIn("\x1b", plain)
        coloured = self.page_on_a_terminal(NO_COLOR="")
        self.assertIn("\x1b[48;5;", coloured)
        self.assertEqual(re.sub(r"\x1b\[[0-9;]*m", "", coloured), plain)

    def test_no_color_and_a_dumb_terminal_are_respected(self):
        for environment in ({"NO_COLOR": "1"}, {"NO_COLOR": "", "TERM": "dumb"}):
            with self.subTest(environment):
                self.assertNotIn("\x1b", self.page_on_a_terminal(**environment))
