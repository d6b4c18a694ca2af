"""The way from a checkpoint to a token once, in seconds: what tools/test --quick runs of the end-to-end tests."""
import json

from support import DATA, DONE, POCKET, E2eTest

TEXT = "A recipe begins with"


class SmokeTest(E2eTest):
    def test_a_checkpoint_is_compiled_planned_run_and_evaluated(self):
        model, planned = self.scratch / "model.moe", self.scratch / "planned.moe"
        self.expect(DONE, "moec", "compile", POCKET, "-o", model, "--bits", "4", "--memory", "50%")
        self.expect(DONE, "moec", "verify", model)
        device = sorted((DATA.parents[1] / "profiles").glob("*.yaml"))[0]
        self.expect(DONE, "moec", "replan", model, "-o", planned, "--memory", "25%", "--device", device)
        plans = json.loads(self.expect(DONE, "moec", "inspect", planned, "--json").out)["plans"]
        self.assertEqual(len(plans), 1)

        texts = set()
        for file, flags in ((model, ("--memory", "50%")), (planned, ("--memory", "25%")), (planned, ("--threads", 1))):
            said = json.loads(self.expect(DONE, "moert", "run", file, "-p", TEXT, "-n", 12, "--ignore-eos", "--json", *flags).out)
            self.assertEqual((said["generated_tokens"], said["end"]), (12, "length"))
            texts.add(said["text"])
        self.assertEqual(len(texts), 1)  # No budget, plan or number of threads changes a token.

        text = self.scratch / "text.txt"
        text.write_text("One sentence after the other. " * 80)
        value = lambda file: json.loads(self.expect(DONE, "moert", "eval", file, "--text", text, "--window", 128, "--json").out)["value"]
        self.assertEqual(value(model), value(planned))
