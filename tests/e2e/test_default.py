"""moec compile without options: calibrated, error feedback for all matrices, and a quick loss that stays with the artifact."""
import array
import json
import shutil
import struct
import unittest

import support
from support import DONE, POCKET, E2eTest, artifact, plain_text, pocket, run, sizes

# What the default does, in less time: the loss is measured all the same.
QUICK = ("--self-text", 4, "--calibration-tokens", 2048)


class DefaultTest(E2eTest):
    def test_a_compile_measures_its_loss_and_keeps_it(self):
        model = self.scratch / "pocket.moe"
        done = self.expect(DONE, "moec", "compile", POCKET, "-o", model, *QUICK)
        self.assertRegex(done.err, r"(?m)^7 steps, about \d+ (s|min).* or, where 4 bits miss the aim, \d+ (s|min).* on this machine as busy as it is now, and up to .* in .*pocket\.moe\.work$")
        self.assertNotIn("acceptance", done.err)
        last = done.err.strip().splitlines()[-1]
        self.assertRegex(last, r"^quick loss: perplexity [+-]\d+\.\d\d%, KL \d\.\d{4} nats, .* on 20 windows of 256 tokens that it wrote")
        self.assertFalse((self.scratch / "pocket.moe.work").exists())
        self.expect(DONE, "moec", "verify", model)
        quick = sizes(model)["quick_loss"]
        self.assertLess(quick["kl_nats"], 0.01)
        self.assertIn(f"KL {quick['kl_nats']:.4f}", last)
        line = last.removeprefix("quick loss: ").partition("; the terms")[0]
        self.assertIn(line, self.expect(DONE, "moec", "inspect", model).out)

    def test_a_width_that_misses_the_aim_is_followed_by_a_wider_one(self):
        checkpoint, model = self.checkpoint_with_outliers(), self.scratch / "wide.moe"
        done = self.expect(DONE, "moec", "compile", checkpoint, "-o", model, "--quantizer", "nearest", *QUICK)
        self.assertRegex(done.err, r"experts of 4 bits change perplexity by \+\d+\.\d\d%, above the aim of 3%: compiling them with 5 bits; --bits 4 keeps 4\n")
        self.assertEqual([total["bits"] for total in sizes(model)["width_totals"]], [5])
        self.assertLess(sizes(model)["quick_loss"]["loss"], 0.03)
        self.assertFalse((self.scratch / "wide.moe.work").exists())
        kept = self.expect(DONE, "moec", "compile", checkpoint, "-o", model, "--quantizer", "nearest", "--bits", 4, *QUICK)
        self.assertNotIn("above the aim", kept.err)
        self.assertGreater(sizes(model)["quick_loss"]["loss"], 0.03)

    def checkpoint_with_outliers(self):
        """The bundled model with every 32nd neuron's up row divided by 16 and its down column multiplied: the same function, but hard to round."""
        folder = self.scratch / "outliers"
        shutil.copytree(POCKET, folder, ignore=shutil.ignore_patterns("golden"))
        data = bytearray((folder / "model.safetensors").read_bytes())
        (length,) = struct.unpack_from("<Q", data)
        for name, tensor in json.loads(data[8:8 + length]).items():
            is_up = name.endswith("up_proj.weight")
            if ".mlp.experts." not in name or not is_up and not name.endswith("down_proj.weight"):
                continue
            begin, end = (8 + length + offset for offset in tensor["data_offsets"])
            values, columns = array.array("H", data[begin:end]), tensor["shape"][1]
            for i, value in enumerate(values):
                neuron = i // columns if is_up else i % columns
                if neuron % 32 == 0 and (value >> 7 & 255) > 4:  # The exponent of a number that stays normal.
                    values[i] += -4 * 128 if is_up else 4 * 128
            data[begin:end] = values.tobytes()
        (folder / "model.safetensors").write_bytes(data)
        return folder

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
