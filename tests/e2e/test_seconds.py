"""Widths chosen by seconds: with a device and a budget, the widths with the least expected time within the target are chosen, and named."""
import functools
import json
import re

from support import DONE, ROOT, run
from test_accuracy import AccuracyTest, folder, searched

DEVICE = ROOT / "profiles/raspberry-pi-5-sd.yaml"


@functools.cache
def compiled(name, *flags):
    """The artifact of a search with all solvers, and the command's messages."""
    path = folder() / name
    done = run("moec", *searched("--threads", 2, *flags, solver="auto"), "-o", path)
    if done.status != DONE:
        raise AssertionError(f"exit {done.status}\n{done.err[-4000:]}")
    return path, done.err


def by_bytes():
    return compiled("bytes.moe")


def by_seconds():
    return compiled("seconds.moe", "--memory", "25%", "--device", DEVICE)


class SecondsTest(AccuracyTest):
    def inspected(self, path):
        return json.loads(self.expect(DONE, "moec", "inspect", path, "--json").out)

    def reason(self, path):
        return next(reason for reason in self.inspected(path)["plans"][0]["reasons"] if reason["decision"] == "widths")

    def forecast(self, path):
        """With the one plan of a quarter of its experts on the device."""
        planned = self.scratch / "planned.moe"
        self.expect(DONE, "moec", "replan", path, "--memory", "25%", "--device", DEVICE, "-o", planned)
        return self.inspected(planned)["plans"][0]["forecast"]["token_ns"]

    def test_the_target_is_kept_and_the_forecast_is_not_slower_than_with_the_fewest_bytes(self):
        for path, _ in (by_bytes(), by_seconds()):
            self.expect(DONE, "moec", "verify", path)
            measured = self.inspected(path)["measured"]
            self.assertLessEqual(measured["upper_bound"], measured["target"])
        self.assertLessEqual(self.forecast(by_seconds()[0]), self.forecast(by_bytes()[0]) * 1.002)

    def test_the_search_and_inspect_say_that_seconds_decided(self):
        path, said = by_seconds()
        self.assertRegex(said, r"bound +KL +ms a token\n")
        self.assertRegex(said, r"\nwidths: least time, [\d.]+ ms a token by ")
        reason = self.reason(path)
        self.assertEqual((reason["value"], reason["origin"]), ("least time", "assumed"))
        self.assertRegex(reason["reason"], r"expected within 25% on Raspberry Pi 5")
        self.assertRegex(self.inspected(path)["provenance"]["widths_by"], r"^seconds within 25% on Raspberry")
        lines = re.findall(r"\n  (?:uniform|mckp|edgemoe) .*", said)
        times = [float("inf") if line.endswith("does not fit") else float(line.split()[-1]) for line in lines]
        self.assertEqual(times, sorted(times, reverse=True))

    def test_without_a_device_and_a_budget_bytes_decide_and_say_so(self):
        path, said = by_bytes()
        self.assertNotIn("ms a token", said)
        reason = self.reason(path)
        self.assertEqual((reason["value"], reason["origin"]), ("fewest bytes", "measured"))
        self.assertIn("a device and a budget would let time decide", reason["reason"])
        self.assertEqual(self.inspected(path)["provenance"]["widths_by"], "bytes")

    def test_other_plans_keep_why_the_widths_are_as_they_are(self):
        path, _ = by_seconds()
        planned = self.scratch / "planned.moe"
        for flags in ((), ("--device", DEVICE), ("--preset", "lru", "load-on-demand")):
            self.expect(DONE, "moec", "replan", path, "--memory", "50%", *flags, "-o", planned)
            self.assertEqual(self.reason(planned), self.reason(path))

    def test_a_preset_that_is_asked_for_is_what_widths_are_timed_with(self):
        path, said = compiled("lru.moe", "--memory", "25%", "50%", "--device", DEVICE, "--preset", "load-on-demand", "lru")
        self.assertRegex(said, r"\nwidths: least time, ")
        plans = {plan["name"]: plan for plan in self.inspected(path)["plans"]}
        best = float(re.search(r"\nwidths: least time, ([\d.]+) ms", said)[1])
        self.assertAlmostEqual(plans["25% load-on-demand"]["forecast"]["token_ns"] / 1e6, best, delta=best * 0.01)

    def test_a_device_that_cannot_be_read_is_refused_before_anything_is_measured(self):
        self.refused("moec", *searched("--memory", "25%", "--device", "missing.yaml"), "-o", self.output, mention="missing.yaml")
        self.assertEqual(self.left(), [])
