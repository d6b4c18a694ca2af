"""A GGUF file is a checkpoint: it computes what the checkpoint does that it was made from. The comparison with llama.cpp
writes such a file: what it holds, and what it refuses."""
import json
import shutil
import sys

import blocks
import test_golden
from support import DATA, DONE, POCKET, ROOT, E2eTest, artifact, read_safetensors, sizes

sys.path.insert(0, str(ROOT / "tests/bench"))
import gguf

QUANTIZED = DATA / "gguf/granitemoe_q4_1/model.gguf"


class GgufTest(E2eTest):
    def logits(self, path, ids):
        output = self.scratch / "logits.safetensors"
        self.expect(DONE, "moert", "logits", path, "--ids", self.write_ids(ids), "-o", output)
        return read_safetensors(output)

    def test_a_model_file_has_all_expert_bytes_of_the_checkpoint(self):
        gguf.convert(POCKET, self.scratch / "pocket.gguf")
        tensors = gguf.checkpoint_tensors(POCKET)
        expected = sum(tensor.bytes for name, tensor in tensors.items() if ".experts." in name)
        self.assertEqual(gguf.sizes(self.scratch / "pocket.gguf").experts, expected)

    def test_an_expert_follows_the_one_before_it(self):
        tensors = gguf.checkpoint_tensors(POCKET)
        gguf.convert(POCKET, self.scratch / "pocket.gguf")
        both = b""
        for expert in (0, 1):
            tensor = tensors[f"model.layers.0.mlp.experts.{expert}.up_proj.weight"]
            both += tensor.path.read_bytes()[tensor.offset:tensor.offset + tensor.bytes]
        self.assertIn(both, (self.scratch / "pocket.gguf").read_bytes())

    def test_brain_floats_and_halves_are_widened_without_loss(self):
        self.assertEqual(gguf.widened(b"\x80\x3f\x00\xc0", "BF16"), b"\x00\x00\x80\x3f\x00\x00\x00\xc0")  # 1, -2
        self.assertEqual(gguf.widened(b"\x00\x3c\x00\xc0", "F16"), b"\x00\x00\x80\x3f\x00\x00\x00\xc0")

    def test_another_family_is_refused(self):
        shutil.copytree(POCKET, self.scratch / "other")
        path = self.scratch / "other/config.json"
        path.chmod(0o644)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "mixtral"}))
        with self.assertRaises(gguf.Unsupported):
            gguf.convert(self.scratch / "other", self.scratch / "other.gguf")
        self.assertFalse((self.scratch / "other.gguf").exists())

    def test_a_model_file_computes_the_bits_of_the_checkpoint_that_it_was_made_from(self):
        gguf.convert(POCKET, self.scratch / "pocket.gguf")
        logits = [self.logits(artifact(checkpoint, "--bits", "source", "--resident-bits", "source"), range(1, 40))
                  for checkpoint in (POCKET, self.scratch / "pocket.gguf")]
        self.assertEqual(*(list(each["logits"].values) for each in logits))

    def test_files_of_the_converter_compute_what_their_checkpoints_do(self):
        for recipe in sorted((DATA / "gguf/converted").glob("*.json")):
            with self.subTest(family=recipe.stem):
                made, case = json.loads(recipe.read_text()), self.scratch / recipe.stem
                shutil.copytree(DATA / "golden" / made["of"], case, copy_function=shutil.copyfile)
                config = json.loads((case / "config.json").read_text())
                config.get("text_config", {}).update(made["text_config"])
                (case / "config.json").write_text(json.dumps(config))
                file = self.scratch / f"{recipe.stem}.gguf"
                gguf.assemble(recipe.with_suffix(".gguf"), made["tensors"], case, file)
                ids = read_safetensors(case / "golden/golden.safetensors")["input_ids"].values
                got, wanted = (self.logits(artifact(each, "--bits", "source", "--resident-bits", "source"), ids)
                               for each in (file, case))
                self.assertEqual(list(got["experts"].values), list(wanted["experts"].values))
                # The file's decays are rounded: -exp(A_log).
                tolerance = 1e-5 if any("ssm_a" in part["tensor"] for part in made["tensors"]) else 0
                logits = wanted["logits"].values
                self.assertLessEqual(test_golden.largest_difference(got["logits"].values, logits), tolerance * max(map(abs, logits)))

    def test_a_quantized_model_file_has_the_logits_and_experts_of_its_reference(self):
        golden = read_safetensors(QUANTIZED.parent / "golden/golden.safetensors")
        path = artifact(QUANTIZED, "--bits", "source", "--resident-bits", "source")
        for prefix in ("", "prompt1_"):
            got, wanted = self.logits(path, golden[prefix + "input_ids"].values), golden[prefix + "logits"].values
            self.assertLessEqual(test_golden.largest_difference(got["logits"].values, wanted),
                                 test_golden.LOGITS_TOLERANCE * max(map(abs, wanted)))
            self.assertEqual(list(got["experts"].values), list(golden[prefix + "experts"].values))
        prompt, greedy = golden["input_ids"].values, list(golden["greedy_ids"].values)
        logits = self.logits(path, [*prompt, *greedy[:-1]])["logits"]
        rows = [logits.values[at:at + logits.shape[1]] for at in range(0, len(logits.values), logits.shape[1])]
        self.assertEqual([max(range(len(row)), key=row.__getitem__) for row in rows[len(prompt) - 1:]], greedy)

    def test_experts_keep_the_blocks_of_the_file(self):
        file = self.scratch / "blocks.gguf"
        blocks.write(file)
        path, stored = artifact(file, "--bits", "source"), gguf.sizes(file).experts
        said = sizes(path)
        self.assertLess(said["expert_payload_bytes"] / stored, 1.02)
        widths = json.loads(self.expect(DONE, "moec", "plan", file, "--memory", "50%", "--json").out)["widths"]
        source, = (width for width in widths if width["option"] == "source")
        self.assertEqual(source["expert_bytes"], said["expert_payload_bytes"])
        weights = 3 * blocks.HIDDEN * blocks.WIDTH * len(said["experts"])
        self.assertAlmostEqual(source["bits"], 8 * stored / weights, places=3)
        # Row 37 of the first expert's gate: row 5 of panel 2; a row has 8 blocks of 18 bytes.
        content, begin, row = path.read_bytes(), said["experts"][0]["file_offset"], 8 * 18
        gate = content[begin + 2 * 16 * row + 5:begin + 3 * 16 * row:16]
        self.assertEqual(len(gate), row)
        self.assertIn(gate, file.read_bytes())
        module, emitted = self.scratch / "m.mlir", self.scratch / "emitted.moe"
        self.expect(DONE, "moec", "compile", file, "-o", self.scratch / "m.moe", "--bits", "source", "--save-module", module)
        self.expect(DONE, "moec", "emit", module, "-o", emitted)
        self.assertEqual(emitted.read_bytes(), path.read_bytes())
        self.assertIn("#moe.format<kind = q4_k, group = 256>", module.read_text())

    def test_commands_that_take_a_checkpoint_take_a_model_file(self):
        inspected = json.loads(self.expect(DONE, "moec", "inspect", QUANTIZED, "--json").out)
        self.assertEqual(inspected["model_type"], "granitemoe")
        self.assertEqual(inspected["quantization"], "GGUF, Q4_1, Q8_0")
        self.expect(DONE, "moec", "plan", QUANTIZED, "--memory", "1GiB")
        self.expect(DONE, "moec", "import", QUANTIZED, "-o", self.scratch / "imported.mlir")
        module, compiled, emitted = (self.scratch / name for name in ("m.mlir", "compiled.moe", "emitted.moe"))
        self.expect(DONE, "moec", "compile", QUANTIZED, "-o", compiled, "--bits", "source", "--save-module", module)
        self.expect(DONE, "moec", "emit", module, "-o", emitted)
        self.assertEqual(emitted.read_bytes(), compiled.read_bytes())

    def test_a_broken_model_file_is_refused_by_name_and_leaves_no_output(self):
        whole, path = QUANTIZED.read_bytes(), self.scratch / "broken.gguf"
        for broken, mention in ((whole[:-4000], "the end of the file"), (whole[:8000], "more bytes"),
                                (whole.replace(b"attn_q.weight", b"attn_x.weight", 1), "blk.0.attn_x.weight")):
            path.write_bytes(broken)
            self.refused("moec", "compile", path, "-o", self.scratch / "m.moe", mention=mention)
            self.assertFalse((self.scratch / "m.moe").exists())

    def test_an_output_does_not_replace_its_model_file(self):
        path = self.scratch / "model.gguf"
        shutil.copyfile(QUANTIZED, path)
        self.refused("moec", "compile", path, "-o", path, mention="model.gguf")
        self.assertEqual(path.read_bytes(), QUANTIZED.read_bytes())
