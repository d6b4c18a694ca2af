"""moec plan: what to expect of a model that is not compiled yet, from its config.json and a device profile alone; and
of an artifact, the plans that moec replan would write, with a picture of the first.
"""
import functools
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree

import support
from support import DATA, DONE, POCKET, REFUSED, ROOT, SCRATCH, E2eTest, digest, pocket, run

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

    def test_the_smallest_budget_is_the_one_that_compiling_names(self):
        for width in self.planned("25%")["widths"]:
            done = self.expect(REFUSED, "moec", "compile", POCKET, "--bits", width["bits"], "--memory", "1KiB",
                               "-o", self.scratch / "out.moe")
            self.assertIn(f'the smallest budget that works is {width["smallest_budget_bytes"]} bytes', done.err)

    def test_fewer_bits_and_more_memory_are_faster(self):
        widths = self.planned("25%", "50%")["widths"]
        self.assertEqual([width["bits"] for width in widths], [8, 6, 5, 4, 3, 2])
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
            self.assertEqual((large["fits"], large["cached_fraction"], large["hit_rate"]), (True, 1, 1))
            self.assertGreater(width["smallest_budget_bytes"], 1 << 20)

    def test_recurrent_states_do_not_grow_with_the_context(self):
        model = DATA / "golden/qwen3_next"
        said = {tokens: json.loads(self.expect(DONE, "moec", "plan", model, "--memory", "1GiB", "--context", tokens, "--json").out)
                for tokens in (512, 4096)}
        # In three layers the last three inputs of 32 + 32 + 64 elements and four states of 16 x 16, in 4 bytes.
        self.assertEqual({plan["state_bytes"] for plan in said.values()}, {3 * 4 * (3 * 128 + 4 * 16 * 16)})
        self.assertLess(said[512]["kv_bytes"], said[4096]["kv_bytes"])
        text = self.expect(DONE, "moec", "plan", model, "--memory", "1GiB").out
        self.assertIn("of keys and values in 16 bits, and 16.5 KiB of recurrent states sizes,", " ".join(text.split()))
        self.assertNotIn("recurrent", self.expect(DONE, "moec", "plan", self.model, "--memory", "1GiB").out)

    def test_without_a_device_nothing_is_said_of_speed(self):
        for width in self.planned("25%", device=None)["widths"]:
            self.assertNotIn("token_ns", width["budgets"][0])
        text = self.expect(DONE, "moec", "plan", self.model, "--memory", "25%").out
        self.assertIn("forecast of speed, give --device", text)
        self.assertNotIn("tokens/s", text)

    def test_text_tags_its_numbers(self):
        text = self.expect(DONE, "moec", "plan", self.model, "--memory", "1MiB", "25%", "--device", DEVICE).out
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        text = " ".join(text.split())
        self.assertIn("does not fit", text)
        self.assertIn("the rates of this device (assumed at worst)", text)
        self.assertIn("Hit rates are assumed", text)

    def test_what_cannot_be_planned(self):
        def refuse(mention, *arguments):
            self.refused("moec", "plan", *arguments, mention=mention)

        refuse("missing.moe: found no such file or folder, expected a checkpoint or an artifact",
               self.scratch / "missing.moe", "--memory", "25%")
        refuse("/config.json: found no such file", self.scratch, "--memory", "25%")
        refuse("--memory is required", self.model)
        refuse("nowhere.yaml", self.model, "--memory", "25%", "--device", "nowhere.yaml")
        refuse("model/config.json: found a context of 999999 tokens, expected at most the model's 2048 positions", self.model, "--memory", "25%", "--context", "999999")
        config = json.loads((self.model / "config.json").read_text())
        config["model_type"] = "gpt2"
        (self.model / "config.json").write_text(json.dumps(config))
        refuse("gpt2", self.model, "--memory", "25%")

    def test_what_only_an_artifact_can_answer_is_refused(self):
        for flags in (("--preset", "lru"), ("--calibration", "profile"), ("--picture", self.scratch / "plan.svg")):
            self.refused("moec", "plan", self.model, "--memory", "25%", *flags,
                         mention=f"{flags[0]} needs an artifact, .*/model is a model that is not compiled yet")


class DeviceMemoryTest(E2eTest):
    """Every planning command plans a budget beyond the device's memory, and warns."""

    def setUp(self):
        super().setUp()
        self.device = support.device_with_memory(DEVICE, 40 << 20, self.scratch / "small.yaml")

    def warned(self, *arguments):
        error = self.expect(DONE, "moec", *arguments, "--device", self.device).err
        return [line for line in error.splitlines() if line.startswith("warning: ")]

    def test_each_command_names_the_budget_and_what_there_is(self):
        said = ("warning: budget 41MiB, 42991616 bytes (41.0 MiB), is more than a process may use on laptop: Ryzen 7 7840U, "
                "16 GB, NVMe SSD 970 EVO Plus: 41943040 bytes (40.0 MiB), assumed, of 16.0 GiB")
        output = self.scratch / "new.moe"
        for arguments in (("plan", POCKET), ("plan", pocket("4")), ("plan", pocket("4"), "--preset", "lru", "fate"),
                          ("replan", pocket("4"), "-o", output), ("compile", POCKET, "--bits", "2", "-o", output)):
            with self.subTest(arguments):
                if "fate" in arguments:
                    arguments += ("--calibration", profile())
                self.assertEqual(self.warned(*arguments, "--memory", "41MiB", "39MiB"), [said])
                self.assertEqual(self.warned(*arguments, "--memory", "40MiB"), [])

    def test_a_fraction_is_beyond_it_by_its_bytes(self):
        small, large = 25, 100
        sizes = {width["bits"]: [budget["budget_bytes"] for budget in width["budgets"]] for width in json.loads(
            self.expect(DONE, "moec", "plan", POCKET, "--memory", f"{small}%", f"{large}%", "--json").out)["widths"]}
        support.device_with_memory(DEVICE, sizes[8][1] - 1, self.device)
        self.assertLess(max(sizes[4] + sizes[8][:1]), sizes[8][1])
        said = self.warned("plan", POCKET, "--memory", f"{small}%", f"{large}%")
        self.assertEqual([line.split(",")[0] for line in said], ["warning: budget 100% at 8 bits"])


@functools.cache
def profile():
    """A calibration profile of the bundled model, made at the first call of this process."""
    path = SCRATCH / "artifacts" / "plan.profile"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = run("moec", "calibrate", POCKET, "--calibration-text", DATA / "documents/validation.jsonl", "--tokens", "2048", "-o", path)
    if done.status != DONE:
        raise AssertionError(f"moec calibrate: exit {done.status}\n{done.err[-4000:]}")
    return path


class ArtifactPlanTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.model, self.picture = pocket("4"), self.scratch / "plan.svg"

    def planned(self, *flags):
        return self.expect(DONE, "moec", "plan", self.model, "--memory", "25%", "--device", DEVICE, "--calibration",
                           profile(), *flags).out

    def refuses(self, mention, *flags):
        self.refused("moec", "plan", self.model, "--memory", "25%", *flags, "--picture", self.picture, mention=mention)
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_the_plans_are_those_that_replan_writes(self):
        before = digest(self.model)
        said = json.loads(self.planned("--preset", "lru", "fate", "--json"))
        new = self.scratch / "new.moe"
        self.expect(DONE, "moec", "replan", self.model, "--memory", "25%", "--device", DEVICE, "--calibration", profile(),
                    "--preset", "lru", "fate", "-o", new)
        written = json.loads(self.expect(DONE, "moec", "inspect", new, "--json").out)
        self.assertEqual(said["plans"], written["plans"])
        self.assertEqual(len(said["plans"]), 2)
        self.assertEqual(digest(self.model), before)

    def test_text_says_why_and_how_fast(self):
        text = self.planned("--preset", "fate")
        for words in ("Fate 4.4", "forecast, decoding the calibration text", "Belady"):
            self.assertIn(words, text)

    def test_text_ends_with_a_whole_line(self):
        for flags in ((), ("--json",)):
            self.assertRegex(self.planned(*flags), r"\S\n\Z")

    def test_a_percentage_is_of_all_experts_bytes_in_plans_and_runs(self):
        inspected = json.loads(self.expect(DONE, "moec", "inspect", self.model, "--json").out)
        quarter = inspected["expert_payload_bytes"] / 4
        run_cache = int(re.search(r"expert cache +(\d+) B", self.expect(DONE, "moert", "run", self.model, "-p", "a", "-n", 1,
                                                                       "--memory", "25%", "--memory-table").err)[1])
        plan = json.loads(self.planned("--preset", "lru", "--json"))["plans"][0]
        plan_cache = (plan["staging_pages"] + sum(plan["quota_pages"])) * inspected["page_bytes"]
        # Whole pages in a run; a plan of quotas divides them into whole records of 6 pages.
        self.assertLess(quarter - run_cache, inspected["page_bytes"])
        self.assertLessEqual(run_cache, quarter)
        self.assertLessEqual(plan_cache, run_cache)
        self.assertLess(run_cache - plan_cache, 6 * inspected["page_bytes"])

    def test_help_says_of_what_a_percentage_is(self):
        for tool, command in (("moec", "plan"), ("moec", "compile"), ("moec", "replan"), ("moert", "run"), ("moert", "bench"),
                              ("moert", "eval"), ("moert", "logits")):
            said = " ".join(self.expect(DONE, tool, command, "--help").out.split())
            self.assertIn("25%: a cache of a quarter of the bytes that all experts have in the artifact, plus everything else that "
                          + ("a run with --context tokens may need" if tool == "moec" else "this run needs"), said)

    def test_a_picture_has_a_row_for_each_layer(self):
        self.planned("--preset", "edgemoe", "--picture", self.picture)
        svg = ElementTree.parse(self.picture).getroot()
        self.assertEqual((svg.tag, svg.get("width")), ("{http://www.w3.org/2000/svg}svg", "900"))
        shapes = [shape.get("class") for shape in svg]
        self.assertEqual((shapes.count("wanted"), shapes.count("found")), (10 + 1, 10 + 1))  # And the legend's.
        words = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn(f"Plan 25% of {self.model.name}, preset edgemoe", words)
        self.assertTrue(any(word.startswith("paths 1 ahead, ") for word in words), words)

    def test_the_same_plan_is_the_same_picture(self):
        other = self.scratch / "other.svg"
        self.planned("--preset", "fate", "--picture", self.picture)
        self.planned("--preset", "fate", "--picture", other)
        self.assertEqual(digest(self.picture), digest(other))

    def test_what_cannot_be_drawn_leaves_no_picture(self):
        self.refuses("a picture of a plan needs a trace: give --calibration", "--device", DEVICE)
        self.refuses("a picture of a plan needs a device: give --device", "--calibration", profile())
        self.refuses("smaller than the largest record", "--memory", "0.1%")
        self.refused("moec", "plan", self.model, "--memory", "25%", "--picture", self.model, mention="would replace")
