"""The comparison with llama.cpp writes a model file of a checkpoint: what it holds, and what it refuses."""
import json
import shutil
import sys

from support import POCKET, ROOT, E2eTest

sys.path.insert(0, str(ROOT / "tests/bench"))
import gguf


class GgufTest(E2eTest):
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
