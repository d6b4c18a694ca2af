"""Conversations: what compiling takes over of a checkpoint for them."""
import json
import shutil

from support import DATA, DONE, POCKET, E2eTest, digest

TEMPLATE = DATA / "chat/plain.jinja"


class ArtifactTest(E2eTest):
    def checkpoint(self, **files):
        """The bundled model with files of other contents; a dot in a file's name is written as two underscores."""
        folder = self.scratch / "checkpoint"
        shutil.copytree(POCKET, folder, ignore=shutil.ignore_patterns("golden"))
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        return folder

    def compiled(self, checkpoint, *flags):
        output = self.scratch / "chat.moe"
        done = self.expect(DONE, "moec", "compile", checkpoint, "--bits", 4, "-o", output, *flags)
        return output, done.err

    def inspected(self, artifact):
        return json.loads(self.expect(DONE, "moec", "inspect", artifact, "--json").out)

    def test_template_tokens_and_sampling_are_in_the_artifact_and_inspect_shows_them(self):
        config = {"eos_token_id": [0, 5], "do_sample": True, "temperature": 0.5, "top_k": 20, "top_p": 0.75}
        checkpoint = self.checkpoint(chat_template__jinja=TEMPLATE.read_text(), generation_config__json=json.dumps(config))
        model, _ = self.compiled(checkpoint)
        found = self.inspected(model)
        self.assertEqual(found["chat"]["templates"], {"default": TEMPLATE.read_text()})
        self.assertEqual(found["chat"]["special_tokens"], {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})
        self.assertEqual(found["sampling"], {"do_sample": True, "temperature": 0.5, "top_k": 20, "top_p": 0.75})
        self.assertEqual(found["model"]["eos_tokens"], [0, 5])
        self.documented(found["sampling"], "docs/inspect.md")
        page = self.expect(DONE, "moec", "inspect", model).out
        self.assertIn(f"template default  {len(TEMPLATE.read_text())} bytes", page)
        self.assertIn("drawn, temperature 0.5, top-k 20, top-p 0.75", page)
        self.expect(DONE, "moec", "verify", model)

    def test_emit_writes_compile_s_bytes_and_replan_keeps_the_template(self):
        checkpoint, module = self.checkpoint(chat_template__jinja=TEMPLATE.read_text()), self.scratch / "m.mlir"
        model, _ = self.compiled(checkpoint, "--save-module", module)
        emitted, replanned = self.scratch / "emitted.moe", self.scratch / "replanned.moe"
        self.expect(DONE, "moec", "emit", module, "-o", emitted)
        self.assertEqual(digest(emitted), digest(model))
        self.expect(DONE, "moec", "replan", model, "--memory", "50%", "-o", replanned)
        self.assertEqual(self.inspected(replanned)["chat"], self.inspected(model)["chat"])

    def test_what_cannot_be_kept_is_a_warning_and_the_model_compiles(self):
        checkpoint = self.checkpoint(chat_template__jinja="x" * (256 * 1024 + 1), tokenizer_config__json="{ broken")
        model, said = self.compiled(checkpoint)
        self.assertRegex(said, "warning: .*chat_template.jinja.*")
        self.assertRegex(said, "warning: .*tokenizer_config.json: found no JSON object")
        self.assertNotIn("chat", self.inspected(model))
