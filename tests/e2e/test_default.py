"""moec compile without options: calibrated, error feedback for all matrices, and a quick loss that stays with the artifact."""
import json
import unittest

import support
from support import DONE, POCKET, E2eTest, artifact, plain_text, pocket, run, sizes

# What the default does, in less time: the loss is measured all the same.
QUICK = ("--self-text", 4, "--calibration-tokens", 2048)


class DefaultTest(E2eTest):
    def test_a_compile_measures_its_loss_and_keeps_it(self):
        model = self.scratch / "pocket.moe"
        done = self.expect(DONE, "moec", "compile", POCKET, "-o", model, *QUICK)
        self.assertRegex(done.err, r"(?m)^6 steps, about \d+ (s|min).* on this machine as busy as it is now, and up to .* in .*pocket\.moe\.work$")
        self.assertNotIn("acceptance", done.err)
        last = done.err.strip().splitlines()[-1]
        self.assertRegex(last, r"^quick loss: perplexity [+-]\d+\.\d\d%, KL \d\.\d{4}, .* on 20 windows of 256 tokens that the checkpoint wrote")
        self.assertFalse((self.scratch / "pocket.moe.work").exists())
        self.expect(DONE, "moec", "verify", model)
        quick = sizes(model)["quick_loss"]
        self.assertLess(quick["kl_nats"], 0.01)
        self.assertIn(f"KL {quick['kl_nats']:.4f}", last)
        self.assertIn(last.removeprefix("quick loss: "), self.expect(DONE, "moec", "inspect", model).out)

    def test_a_compile_without_calibration_says_that_nothing_was_measured(self):
        done = self.expect(DONE, "moec", "compile", POCKET, "-o", self.scratch / "pocket.moe", "--no-calibration")
        self.assertEqual(done.err.strip().splitlines()[-1], "loss not measured; rounding to nearest can lose tens of percent")
        self.refused("moec", "compile", POCKET, "-o", self.scratch / "other.moe", "--no-calibration", "--self-text", 4,
                     mention="--no-calibration with --self-text, expected one of them")

    def test_the_checkpoints_own_weights_need_no_loss(self):
        exact = artifact(POCKET, "--bits", "source", "--resident-bits", "source")
        self.assertNotIn("quick_loss", sizes(exact))

    def test_resident_matrices_of_4_bits_lose_less_with_error_feedback(self):
        profile = support.calibrated_pocket(self.scratch)
        source = artifact(POCKET, "--bits", "source", "--resident-bits", "source")
        text, divergences = self.scratch / "text.txt", {}
        text.write_text(plain_text("validation").read_text()[:20000])
        for name, flags in (("nearest", ["--quantizer", "nearest"]), ("fitted", ["--calibration", profile])):
            model = self.scratch / f"{name}.moe"
            self.expect(DONE, "moec", "compile", POCKET, "-o", model, "--bits", 8, "--resident-bits", 4, *flags)
            said = self.expect(DONE, "moert", "eval", model, "--reference", source, "--text", text, "--window", 128, "--json")
            divergences[name] = json.loads(said.out)["kl"]
        self.assertLess(divergences["fitted"], 0.6 * divergences["nearest"], divergences)
        formats = {weight["name"]: weight for weight in sizes(self.scratch / "fitted.moe")["residents"]}
        transformed = [name for name, weight in formats.items() if weight["has_hadamard"]]
        self.assertTrue(any("q_proj" in name for name in transformed), transformed)
        self.assertFalse(any("embed_tokens" in name for name in transformed), transformed)

    def test_programs_that_load_a_model_say_its_quality(self):
        model = pocket("4")
        done = run("moert", "chat", model, "--template", self.template(), stdin="/quit\n")
        self.assertRegex(done.err, r"quality +loss not measured")

    def template(self):
        path = self.scratch / "template.jinja"
        path.write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
        return path


if __name__ == "__main__":
    unittest.main()
