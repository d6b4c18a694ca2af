"""Checkpoints whose files are incomplete or disagree: refused or warned of by name, and never taken for something else."""
import json
import shutil
import struct
import unittest

from support import DATA, DONE, POCKET, E2eTest

GOLDEN = DATA / "golden"
INDEX = "model.safetensors.index.json"
SOURCE = ("--bits", "source", "--resident-bits", "source")
PROMPT = (5, 9, 17, 200, 31, 8)


def change(path, edit):
    """Edits a JSON file in place."""
    content = json.loads(path.read_text())
    edit(content)
    path.unlink()
    path.write_text(json.dumps(content))


def read_shard(path):
    """A safetensors file's header and data."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8:8 + length]), content[8 + length:]


def write_shard(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class CheckpointTest(E2eTest):
    def checkpoint(self, name):
        folder = self.scratch / "ck"
        shutil.copytree(GOLDEN / name, folder)
        for path in folder.iterdir():
            path.chmod(0o644)
        return folder

    def indexed(self, name):
        """A checkpoint of one file, with an index in front of it."""
        folder = self.checkpoint(name)
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
        header, _ = read_shard(folder / "model-1.safetensors")
        names = [name for name in header if name != "__metadata__"]
        (folder / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(names, "model-1.safetensors")}))
        return folder

    def compile(self, folder, *flags):
        output = self.scratch / "m.moe"
        return self.expect(DONE, "moec", "compile", folder, "-o", output, *(flags or SOURCE)), output

    def compile_refused(self, folder, mention):
        output = self.scratch / "m.moe"
        done = self.refused("moec", "compile", folder, "-o", output, *SOURCE, mention=mention)
        self.assertFalse(output.exists())
        return done

    def ids(self, artifact):
        said = self.expect(DONE, "moert", "run", artifact, "--ids", self.write_ids(PROMPT), "-n", 16, "--ignore-eos",
                           "--json")
        return json.loads(said.out)["ids"]

    def warnings(self, done):
        return [line for line in done.err.splitlines() if "warning:" in line]


class OptionalFilesTest(CheckpointTest):
    def test_an_optional_file_that_leads_nowhere_is_refused_by_name(self):
        for name in ("tokenizer.json", "generation_config.json", "model.safetensors", INDEX):
            with self.subTest(name=name):
                folder = self.checkpoint("mixtral")
                (folder / name).unlink(missing_ok=True)
                (folder / name).symlink_to("../../blobs/gone")
                self.compile_refused(folder, f"{name}: found a link to ../../blobs/gone")
                shutil.rmtree(folder)

    def test_a_directory_in_an_optional_files_place_is_refused_by_name(self):
        folder = self.checkpoint("mixtral")
        (folder / "tokenizer.json").mkdir()
        self.compile_refused(folder, r"tokenizer\.json: found a directory")

    def test_a_tokenizer_in_another_form_is_warned_of(self):
        folder = self.checkpoint("mixtral")
        (folder / "tokenizer.model").write_bytes(b"\n\x0e\n\x05<unk>")
        done, output = self.compile(folder)
        (warning,) = self.warnings(done)
        self.assertRegex(warning, r"tokenizer\.model.*no tokenizer\.json.*save_pretrained.*token ids")
        self.assertEqual(len(self.ids(output)), 16)


class TokenizerTest(CheckpointTest):
    def with_added_token(self):
        folder = self.scratch / "ck"
        folder.mkdir()
        for path in POCKET.iterdir():
            (folder / path.name).symlink_to(path)
        tokenizer = folder / "tokenizer.json"
        content = json.loads(tokenizer.read_text())
        tokenizer.unlink()
        content["added_tokens"].append(dict(id=4096, content="<|im_start|>", single_word=False, lstrip=False, rstrip=False,
                                            normalized=False, special=True))
        tokenizer.write_text(json.dumps(content))
        return folder

    def test_a_token_beyond_the_embedding_is_warned_of_and_refused_by_name(self):
        done, output = self.compile(self.with_added_token(), "--bits", 4)
        (warning,) = self.warnings(done)
        self.assertRegex(warning, r"tokenizer\.json has 4097 tokens.*4096 rows.*token 4096 \"<\|im_start\|>\"")
        self.expect(DONE, "moert", "run", output, "-p", "Hello", "-n", 1)
        text = self.scratch / "text.txt"
        text.write_text("Hello <|im_start|> there. " * 200)
        named = r'token 4096 "<\|im_start\|>".*the model has 4096 tokens'
        for command in (("run", output, "-p", "<|im_start|>Hello"), ("eval", output, "--text", text), ("bench", output, "--text", text)):
            with self.subTest(command=command[0]):
                self.refused("moert", *command, mention=named)
        self.refused("moec", "calibrate", self.scratch / "ck", "--calibration-text", text, "-o", self.scratch / "p", mention=named)

    def test_a_tokenizer_of_a_larger_model_is_warned_of(self):
        folder = self.checkpoint("mixtral")
        shutil.copy(POCKET / "tokenizer.json", folder)
        done, _ = self.compile(folder)
        (warning,) = self.warnings(done)
        self.assertRegex(warning, r"tokenizer\.json has 4096 tokens.*384 rows.*another model")


class ShardsTest(CheckpointTest):
    def test_an_index_may_list_what_the_model_does_not_need(self):
        whole = self.ids(self.compile(self.indexed("mixtral_tied"))[1])
        folder = self.scratch / "ck"

        def list_more(index):
            shard = next(iter(index["weight_map"].values()))
            index["weight_map"]["lm_head.weight"] = shard
            index["weight_map"]["model.layers.0.self_attn.rotary_emb.inv_freq"] = "model-gone.safetensors"

        change(folder / INDEX, list_more)
        done, output = self.compile(folder)
        (warning,) = self.warnings(done)
        self.assertRegex(warning, rf"{INDEX}.*model-gone\.safetensors.*2 tensors.*lm_head\.weight")
        self.assertEqual(self.ids(output), whole)

    def test_a_tensor_that_the_index_does_not_list_is_used(self):
        whole = self.ids(self.compile(self.checkpoint("mixtral"))[1])
        folder = self.scratch / "ck"
        change(folder / INDEX, lambda index: index["weight_map"].pop("lm_head.weight"))
        done, output = self.compile(folder)
        (warning,) = self.warnings(done)
        self.assertRegex(warning, rf"{INDEX}.*1 tensor .*does not list.*lm_head\.weight")
        self.assertEqual(self.ids(output), whole)

    def test_a_missing_shard_that_is_needed_is_refused_with_its_tensor(self):
        folder = self.checkpoint("mixtral")
        shard = sorted(folder.glob("*.safetensors"))[1]
        shard.unlink()
        self.compile_refused(folder, rf'found no tensor "model\.layers.*{shard.name}.*no such file')

    def test_tensors_of_zeros_are_warned_of_by_name(self):
        folder = self.checkpoint("mixtral")
        shard = sorted(folder.glob("*.safetensors"))[0]
        header, data = read_shard(shard)
        names = sorted((name for name in header if ".experts.0." in name), key=str)
        self.assertGreater(len(names), 1)
        for name in names:
            begin, end = header[name]["data_offsets"]
            data = data[:begin] + bytes(end - begin) + data[end:]
        write_shard(shard, header, data)
        (warning,) = self.warnings(self.compile(folder)[0])
        self.assertRegex(warning, rf"{len(names)} tensors of the model are all zero: \"model\.layers\.\d+.*experts\.0")


class TiedHeadTest(CheckpointTest):
    def test_a_tie_flag_does_not_hide_a_head_that_differs(self):
        untied = self.ids(self.compile(self.checkpoint("mixtral"))[1])
        folder = self.scratch / "ck"
        change(folder / "config.json", lambda config: config.update(tie_word_embeddings=True))
        done, output = self.compile(folder)
        (warning,) = self.warnings(done)
        self.assertRegex(warning, r"tie_word_embeddings.*lm_head\.weight.*differ.*not tied")
        self.assertEqual(self.ids(output), untied)

    def test_a_tied_head_that_is_stored_alone_is_the_embedding(self):
        tied = self.ids(self.compile(self.indexed("mixtral_tied"))[1])
        folder = self.scratch / "ck"
        old, new = "model.embed_tokens.weight", "lm_head.weight"
        index = json.loads((folder / INDEX).read_text())
        shard = folder / index["weight_map"][old]
        header, data = read_shard(shard)
        header[new] = header.pop(old)
        write_shard(shard, header, data)

        def rename(content):
            content["weight_map"][new] = content["weight_map"].pop(old)

        change(folder / INDEX, rename)
        self.assertEqual(self.ids(self.compile(folder)[1]), tied)


if __name__ == "__main__":
    unittest.main()
