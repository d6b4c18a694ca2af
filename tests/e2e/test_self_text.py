"""Documents that a checkpoint writes itself: the same bytes however they are computed, and a loss accepted on them."""
import json
import signal

from support import DONE, INTERRUPTED, POCKET, E2eTest, ended, start, wait_for

DOCUMENTS = 24


class SelfTextTest(E2eTest):
    def written(self, name, *flags, documents=DOCUMENTS, seed=1):
        output = self.scratch / name
        self.expect(DONE, "moec", "self-text", POCKET, "-n", documents, "--seed", seed, *flags, "-o", output)
        return output

    def test_each_document_is_one_line_with_text(self):
        lines = self.written("lines.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), DOCUMENTS)
        texts = [json.loads(line)["text"] for line in lines]
        self.assertTrue(all(texts))
        self.assertEqual(len(set(texts)), DOCUMENTS)

    def test_a_document_is_the_same_whatever_threads_and_number_of_documents(self):
        whole = self.written("whole.jsonl").read_text().splitlines()
        self.assertEqual(self.written("threads.jsonl", "--threads", 1).read_text().splitlines(), whole)
        self.assertEqual(self.written("few.jsonl", documents=3).read_text().splitlines(), whole[:3])

    def test_another_seed_writes_other_documents(self):
        texts = {self.written(f"{seed}.jsonl", documents=2, seed=seed).read_text() for seed in (1, 2)}
        self.assertEqual(len(texts), 2)

    def test_an_interrupted_command_leaves_no_output_and_resumes(self):
        output = self.scratch / "resumed.jsonl"
        command = ("self-text", POCKET, "-n", 400, "--seed", 1, "-o", output)
        process = start("moec", *command)
        wait_for(process, str(output) + ".partial")
        process.send_signal(signal.SIGINT)
        status, err = ended(process)
        self.assertEqual(status, INTERRUPTED, err)
        self.assertFalse(output.exists())
        self.expect(DONE, "moec", *command, "--resume")
        self.assertEqual(output.read_text().splitlines()[:3], self.written("few.jsonl", documents=3).read_text().splitlines())
        self.assertEqual(sorted(path.name for path in self.scratch.glob("resumed*")), ["resumed.jsonl"])

    def test_too_few_documents_for_an_acceptance_are_refused(self):
        self.refused("moec", "compile", POCKET, "-o", self.scratch / "out.moe", "--accuracy-loss", "2%", "--self-text", 39,
                     mention="expected at least 40")

    def test_a_profile_is_made_of_self_written_text(self):
        profile = self.scratch / "self.profile"
        self.expect(DONE, "moec", "calibrate", POCKET, "--self-text", 30, "--tokens", 2048, "-o", profile)
        seen = json.loads(self.expect(DONE, "moec", "inspect", profile, "--json").out)
        self.assertEqual(seen["tokens"], 2048)

    def test_a_loss_is_accepted_on_self_written_text_alone(self):
        output = self.scratch / "out.moe"
        self.expect(DONE, "moec", "compile", POCKET, "-o", output, "--accuracy-loss", "10%", "--bits", 4, "--self-text", 120,
                    "--search-windows", 12, "--calibration-tokens", 2048)
        measured = json.loads(self.expect(DONE, "moec", "inspect", output, "--json").out)["measured"]
        self.assertLessEqual(measured["upper_bound"], 0.1)
        self.assertEqual([text["name"] for text in measured["acceptance_texts"]], ["self-acceptance.jsonl"])
