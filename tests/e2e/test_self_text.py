"""Documents that a checkpoint writes itself: the same bytes however they are computed, and a loss accepted on them."""
import json
import math
import re
import shutil
import signal
import time
from pathlib import Path

from support import DATA, DONE, FAILED, INTERRUPTED, POCKET, E2eTest, ended, pocket, start, slow, wait_for

DOCUMENTS = 24


class SelfTextTest(E2eTest):
    def written(self, name, *flags, documents=DOCUMENTS, seed=1):
        output = self.scratch / name
        self.expect(DONE, "moec", "self-text", POCKET, "-n", documents, "--seed", seed, *flags, "-o", output)
        return output

    def test_each_document_is_one_line_with_text(self):
        documents = [json.loads(line) for line in self.written("lines.jsonl").read_text().splitlines()]
        self.assertEqual(len(documents), DOCUMENTS)
        self.assertEqual(len({document["text"] for document in documents}), DOCUMENTS)
        for document in documents:
            self.assertEqual(len(document["ids"]), 511)  # With the separator, one window.

    def test_text_alone_ends_where_the_model_ends_it(self):
        output = self.written("text.jsonl", "--text-only", documents=30, seed=3)
        validation = (DATA / "documents/validation.jsonl").read_text().splitlines()
        self.assertEqual(output.read_text().splitlines(), validation[:30])

    def test_a_document_is_the_same_whatever_threads_and_number_of_documents(self):
        whole = self.written("whole.jsonl").read_text().splitlines()
        self.assertEqual(self.written("threads.jsonl", "--threads", 1).read_text().splitlines(), whole)
        self.assertEqual(self.written("few.jsonl", documents=3).read_text().splitlines(), whole[:3])

    def test_a_document_is_the_same_in_any_batch(self):
        short = ("--document-tokens", 64)
        many = self.written("many.jsonl", *short, documents=150).read_text().splitlines()  # Three batches.
        self.assertEqual(len(many), 150)
        for number in (1, 40):
            self.assertEqual(self.written(f"{number}.jsonl", *short, documents=number).read_text().splitlines(), many[:number])

    def test_another_seed_writes_other_documents(self):
        texts = {self.written(f"{seed}.jsonl", documents=2, seed=seed).read_text() for seed in (1, 2)}
        self.assertEqual(len(texts), 2)

    def test_an_interrupted_command_leaves_no_output_and_resumes(self):
        output = self.scratch / "resumed.jsonl"
        command = ("self-text", POCKET, "-n", 300, "--seed", 1, "--document-tokens", 64, "-o", output)
        self.interrupted(Path(f"{output}.partial"), *command)
        self.assertFalse(output.exists())
        self.expect(DONE, "moec", *command, "--resume")
        few = self.written("few.jsonl", "--document-tokens", 64, documents=3)
        self.assertEqual(output.read_text().splitlines()[:3], few.read_text().splitlines())
        self.assertEqual(sorted(path.name for path in self.scratch.glob("resumed*")), ["resumed.jsonl"])

    def interrupted(self, partial, *command, written=True):
        """Interrupts the command once it writes documents, or has written some."""
        process = start("moec", *command)
        wait_for(process, partial)
        while written and process.poll() is None and not partial.stat().st_size:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        status, err = ended(process)
        self.assertEqual(status, INTERRUPTED, err)

    def test_what_is_of_another_seed_or_checkpoint_is_not_resumed(self):
        other = self.scratch / "other"
        shutil.copytree(POCKET, other)
        with open(other / "model.safetensors", "r+b") as file:
            file.seek(8 + int.from_bytes(file.read(8), "little"))
            file.write(bytes(8))
        for name, checkpoint, seed in (("seed", POCKET, 2), ("checkpoint", other, 1)):
            output = self.scratch / f"{name}.jsonl"
            self.interrupted(Path(f"{output}.partial"), "self-text", POCKET, "-n", 400, "--seed", 1, "--document-tokens", 64, "-o", output)
            command = ("self-text", checkpoint, "-n", 2, "--seed", seed, "--document-tokens", 64)
            done = self.expect(DONE, "moec", *command, "--resume", "-o", output)
            self.assertIn("starting over", done.err)
            afresh = self.scratch / f"{name}-afresh.jsonl"
            self.expect(DONE, "moec", *command, "-o", afresh)
            self.assertEqual(output.read_text(), afresh.read_text())

    @slow
    def test_a_resumed_compilation_with_another_seed_has_documents_of_that_seed(self):
        output = self.scratch / "out.moe"
        first = self.out_of_reach(output, "--self-text", 80, "--seed", 1)
        flags = ("--self-text", 80, "--seed", 2, "--resume")
        self.interrupted(self.scratch / "out.moe.work/self-calibration.jsonl.partial", *self.out_of_reach_command(output, *flags),
                         written=False)
        resumed = self.out_of_reach(output, *flags)
        self.assertEqual(sorted(resumed), ["acceptance", "calibration"])
        for use in resumed:
            self.assertFalse(set(resumed[use].splitlines()) & set(first[use].splitlines()))

    def out_of_reach_command(self, output, *flags):
        return ("compile", POCKET, "-o", output, "--accuracy-loss", "0.001%", "--bits", 2, "--search-windows", 10,
                *(() if "--calibration" in flags else ("--calibration-tokens", 2048)), *flags)

    def out_of_reach(self, output, *flags):
        """The documents of a compilation that ends out of reach and keeps its work directory."""
        self.expect(FAILED, "moec", *self.out_of_reach_command(output, *flags))
        return {path.stem.removeprefix("self-"): re.sub(r',"nats_f64":\d+', "", path.read_text())
                for path in self.scratch.glob(f"{output.name}.work/self-*.jsonl")}

    @slow
    def test_calibration_acceptance_and_files_of_one_seed_share_no_document(self):
        both = self.out_of_reach(self.scratch / "both.moe", "--self-text", 40, "--seed", 1)
        profile = self.scratch / "calibration.profile"
        # Calibration reads 4 windows, the search 10, and a quarter more.
        self.expect(DONE, "moec", "calibrate", POCKET, "--self-text", 16, "--seed", 1, "--tokens", 5120, "-o", profile)
        calibrated = json.loads(self.expect(DONE, "moec", "inspect", profile, "--json").out)["texts"]
        self.assertEqual([text["bytes"] for text in calibrated], [len(both["calibration"].encode())])  # The same documents.
        accepted = self.out_of_reach(self.scratch / "accepted.moe", "--calibration", profile, "--self-text", 20, "--seed", 1)
        self.assertEqual(accepted, {"acceptance": both["acceptance"]})
        texts = [both["calibration"], both["acceptance"], self.written("file.jsonl", documents=20).read_text()]
        lines = [line for text in texts for line in text.splitlines()]
        self.assertEqual((len(lines), len(set(lines))), (56, 56))

    @slow
    def test_on_its_own_documents_the_loss_in_nats_is_the_divergence(self):
        text = self.written("own.jsonl", documents=100)
        measured = json.loads(self.expect(DONE, "moert", "eval", pocket("2"), "--reference", pocket("source"), "--text", text, "--json").out)
        # The difference of the two has, per window, a standard deviation of 0.024 nats at 2 bits:
        # three standard errors.
        self.assertEqual(measured["windows"], 100)
        self.assertAlmostEqual(math.log1p(measured["loss"]), measured["kl"], delta=3 * 0.024 / math.sqrt(100))

    def test_ids_of_another_tokenizer_are_refused_by_line(self):
        lines = self.written("ids.jsonl", documents=2).read_text().splitlines()
        document = json.loads(lines[1])
        text = self.scratch / "bad.jsonl"
        for ids, found in (([4096], "the id 4096"), (document["ids"][1:], "another text")):
            text.write_text(lines[0] + "\n" + json.dumps({"text": document["text"], "ids": ids}) + "\n")
            mention = rf"{text.name}'?: line 2: found .*{found}"
            self.refused("moert", "eval", pocket("2"), "--text", text, mention=mention)
            self.refused("moec", "calibrate", POCKET, "--calibration-text", text, "-o", self.scratch / "p", mention=mention)

    def test_too_few_documents_for_an_acceptance_are_refused(self):
        self.refused("moec", "compile", POCKET, "-o", self.scratch / "out.moe", "--accuracy-loss", "2%", "--self-text", 39,
                     mention="--self-text 39, expected --self-text 83 or more: .*calibration reads 32, and the search needs 10 others")

    def test_a_profile_is_made_of_self_written_text(self):
        profile = self.scratch / "self.profile"
        self.expect(DONE, "moec", "calibrate", POCKET, "--self-text", 30, "--tokens", 2048, "-o", profile)
        seen = json.loads(self.expect(DONE, "moec", "inspect", profile, "--json").out)
        self.assertEqual(seen["tokens"], 2048)

    def test_a_loss_is_accepted_on_self_written_text_alone(self):
        output = self.scratch / "out.moe"
        done = self.expect(DONE, "moec", "compile", POCKET, "-o", output, "--accuracy-loss", "10%", "--bits", 4, "--self-text", 120,
                           "--search-windows", 12, "--calibration-tokens", 2048)
        self.assertRegex(done.err, r"(?m)^ +mckp .*%  +-  +\d\.\d{4}$|^ +uniform .*%  +-  +\d\.\d{4}$")
        self.assertIn("the search has 12 windows, and a bound takes 20: widths are ordered by their divergence (KL) on them, without an expected bound; "
                      "--search-windows 20 helps\n",
                      done.err)
        measured = json.loads(self.expect(DONE, "moec", "inspect", output, "--json").out)["measured"]
        self.assertLessEqual(measured["upper_bound"], 0.1)
        self.assertEqual([text["name"] for text in measured["acceptance_texts"]], ["self-acceptance.jsonl"])
