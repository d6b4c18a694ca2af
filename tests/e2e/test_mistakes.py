"""Mistakes of a first hour: each command line with what the programs say, in one file that people can judge.

MOE_REWRITE=1 tests/e2e/run mistakes writes the file anew.
"""
import json
import os
import re
import shlex
import shutil
import socket
import subprocess

from support import DATA, POCKET, REFUSED, ROOT, E2eTest, artifact, pocket, program

GOLDEN = ROOT / "tests/e2e/mistakes.txt"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
DENSE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "vocab_size": 4096, "torch_dtype": "bfloat16"}


def cases(text):
    """Command lines and what the file has them say."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("    "):
            found[-1][1].append(line[4:])
    return found


class MistakesTest(E2eTest):
    def prepare(self):
        """The folder in which the commands are typed."""
        folder = self.scratch
        shutil.copytree(POCKET, folder / "pocket", ignore=shutil.ignore_patterns("golden"))
        shutil.copyfile(pocket("4"), folder / "pocket.moe")
        with_template = folder / "with-template"
        shutil.copytree(folder / "pocket", with_template)
        (with_template / "chat_template.jinja").write_text((DATA / "chat/plain.jinja").read_text())
        shutil.copyfile(artifact(with_template, "--bits", "4"), folder / "chat.moe")
        for name, files in {"lfs": {"model.safetensors": POINTER}, "lfs-tokenizer": {"tokenizer.json": POINTER},
                            "pickles": {"model.safetensors": None, "pytorch_model.bin": "PK"}, "weightless": {"model.safetensors": None},
                            "dense": {"config.json": json.dumps(DENSE)}, "ggufs": {"config.json": None, "a-Q4_K_M.gguf": "GGUF"}}.items():
            (folder / name).mkdir()
            for file in (folder / "pocket").iterdir():
                (folder / name / file.name).symlink_to(file)
            for file, text in files.items():
                (folder / name / file).unlink(missing_ok=True)
                if text is not None:
                    (folder / name / file).write_text(text)
        (folder / "empty").mkdir()
        (folder / "model.gguf").write_bytes(b"GGUF\x03\0\0\0")
        (folder / "pointer.moe").write_text(POINTER)
        (folder / "cut.moe").write_bytes(pocket("4").read_bytes()[:300_000])
        (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")

    def said(self, line, port):
        """What a command says, with numbers that depend on the machine and the build as N."""
        name, *words = shlex.split(line.replace("PORT", str(port)))
        done = subprocess.run([program(name), *words], cwd=self.scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        self.assertEqual((done.returncode, done.stdout), (REFUSED, ""), line + "\n" + done.stderr)
        text = done.stderr.replace(str(port), "PORT").replace(str(self.scratch), "FOLDER")
        text = text.replace(f"from 1 to {max(64, 4 * os.cpu_count())}\n", "from 1 to N\n")
        text = re.sub(r"\d+ bytes \([\d.]+ [KMG]iB\)|\b[\d.]+ [KMG]iB\b", "N", text)
        return [line.rstrip() for line in text.splitlines()]

    def test_every_mistake_has_the_message_of_the_file(self):
        self.prepare()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            text, told = GOLDEN.read_text(), []
            for line, expected in cases(text):
                said = self.said(line, port)
                told.append("\n".join(["$ " + line, *("    " + each for each in said), ""]))
                if not os.environ.get("MOE_REWRITE"):
                    with self.subTest(line):
                        self.assertEqual(said, expected)
        self.assertGreaterEqual(len(told), 40)
        if os.environ.get("MOE_REWRITE"):
            GOLDEN.write_text(text[:text.index("\n$ ") + 1] + "\n".join(told))
