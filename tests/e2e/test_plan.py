"""moec plan: what to expect of a model that is not compiled yet, from its config.json and a device profile alone."""
import json
import shutil

from support import DONE, POCKET, ROOT, E2eTest, pocket

DEVICE = ROOT / "profiles" / "laptop-nvme.yaml"


class PlanTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.model = self.scratch / "model"
        self.model.mkdir()
        shutil.copy(POCKET / "config.json", self.model)

    def planned(self, *budgets, device=DEVICE):
        flags = ("--device", device) if device else ()
        return json.loads(self.expect(DONE, "moec", "plan", self.model, "--memory", *budgets, *flags, "--json").out)

    def test_sizes_are_those_of_the_artifact(self):
        four = next(width for width in self.planned("25%")["widths"] if width["bits"] == 4)
        said = json.loads(self.expect(DONE, "moec", "inspect", pocket("4"), "--json").out)
        sections = {section["name"]: section["bytes"] for section in said["sections"]}
        self.assertEqual(four["resident_bytes"], sections["resident"])
        self.assertEqual(four["expert_bytes"], said["expert_payload_bytes"])

    def test_fewer_bits_and_more_memory_are_faster(self):
        widths = self.planned("25%", "50%")["widths"]
        self.assertEqual([width["bits"] for width in widths], [8, 4, 3, 2])
        for width in widths:
            quarter, half = width["budgets"]
            self.assertGreater(quarter["token_ns"], half["token_ns"])
            self.assertGreater(half["token_ns"], half["compute_ns"])
            self.assertLess(quarter["hit_rate"], half["hit_rate"])
        for more, fewer in zip(widths, widths[1:]):
            self.assertGreater(more["budgets"][0]["token_ns"], fewer["budgets"][0]["token_ns"])
            self.assertGreater(more["file_bytes"], fewer["file_bytes"])

    def test_a_budget_that_is_too_small_does_not_fit(self):
        for width in self.planned("1MiB", "1GiB")["widths"]:
            small, large = width["budgets"]
            self.assertEqual(small, {"budget": "1MiB", "fits": False})
            self.assertEqual((large["fits"], large["cached_share"], large["hit_rate"]), (True, 1, 1))
            self.assertGreater(width["smallest_budget_bytes"], 1 << 20)

    def test_without_a_device_nothing_is_said_of_speed(self):
        for width in self.planned("25%", device=None)["widths"]:
            self.assertNotIn("token_ns", width["budgets"][0])
        text = self.expect(DONE, "moec", "plan", self.model, "--memory", "25%").out
        self.assertIn("--device says on which machine", text)
        self.assertNotIn("tokens/s", text)

    def test_text_tags_its_numbers(self):
        text = self.expect(DONE, "moec", "plan", self.model, "--memory", "1MiB", "25%", "--device", DEVICE).out
        self.assertIn("does not fit", text)
        self.assertIn("the rates of this device (assumed)", text)
        self.assertIn("Hit rates are assumed", text)

    def test_what_cannot_be_planned(self):
        def refuse(mention, *arguments):
            self.refused("moec", "plan", *arguments, mention=mention)

        refuse("missing/config.json", self.scratch / "missing", "--memory", "25%")
        refuse("--memory is required", self.model)
        refuse("nowhere.yaml", self.model, "--memory", "25%", "--device", "nowhere.yaml")
        refuse("a context of 999999 tokens, the model has", self.model, "--memory", "25%", "--context", "999999")
        config = json.loads((self.model / "config.json").read_text())
        config["model_type"] = "gpt2"
        (self.model / "config.json").write_text(json.dumps(config))
        refuse("gpt2", self.model, "--memory", "25%")
