"""What tests/bench/presets makes of its runs: ratios within a round, forecasts beside what was measured, how alike runs are."""
import sys
import unittest

from support import ROOT

sys.path.insert(0, str(ROOT / "tests/bench"))
import preset_table


def run(speed, forecast_ns=None, read=10e6, prefetches=0, **changes):
    """A run of so many tokens a second, 2 ms of a token's forecast for computing, 10 MB of its reads."""
    forecast = forecast_ns and {"token_ns": forecast_ns, "bound_ns": 2e6, "hit_rate": 0.5, "bytes_read_per_token": 10e6,
                                "least_bytes_per_token": 5e6}
    return {"decode_tokens_per_s": {"median": speed}, "hit_rate": 0.5, "ready_rate": 0.6, "stall_rate": 0.4,
            "bytes_read_per_token": read, "useful_per_token": prefetches, "cancelled_per_token": 0,
            "prefetch_recall": 0.25 if prefetches else None, "prefetch_precision": 0.75 if prefetches else None,
            "forecast": forecast, "computing_ns": 2e6, "token_ns": {"p50": 9e6, "p95": 12e6, "p99": 15e6}, "full_hit_rate": 0.5,
            "low_hit_rate": None, "demanded_per_token": 40, "lowered_per_token": 0, "skipped_per_token": 0, "loss": None} | changes


def cells(runs):
    return {row[1]: row for row in ([cell.strip() for cell in line.split("|")[1:-1]] for line in preset_table.rows("25%", runs))}


class PresetTableTest(unittest.TestCase):
    def test_a_ratio_is_of_runs_of_one_round(self):
        rows = cells({"lru": [run(100), run(50), run(200)], "auto": [run(120), run(100), run(220)]})
        self.assertEqual(rows["lru"][2:4], ["100.00", "1.20 (1.10..2.00)"])
        self.assertEqual(rows["auto"][2:4], ["120.00", ""])

    def test_a_forecast_is_held_against_the_run_beside_it(self):
        rows = cells({"auto": [run(100, 11e6), run(50, 16e6), run(100, 12e6)]})  # 10, 20 and 10 ms were measured.
        self.assertEqual(rows["auto"][16], "1.10 (0.80..1.20)")
        self.assertEqual(rows["auto"][18], "0.20")

    def test_what_a_run_read_more_or_less_is_no_fault_of_the_rates(self):
        rows = cells({"auto": [run(100, 12e6, read=5e6)]})  # 2 ms of computing, half of the other 10 ms.
        self.assertEqual(rows["auto"][16:18], ["1.20", "0.70"])

    def test_rounds_without_forecasts_or_prefetches_have_none(self):
        self.assertEqual(cells({"lru": [run(100)]})["lru"][12:], ["-"] * 7)
        rows = cells({"auto": [run(100, 9e6, prefetches=3), run(100, 9e6)]})  # In one of its rounds the plan prefetched.
        self.assertEqual(rows["auto"][15], "25.0% / 75.0%")

    def test_times_of_tokens_hits_by_precision_and_losses_have_columns(self):
        rows = cells({"hobbit": [run(100, low_hit_rate=0.75, loss={"kl_nats": 0.01, "loss": 0.008, "upper_bound": 0.011}),
                                 run(100, low_hit_rate=0.25, loss={"kl_nats": 0.02, "loss": 0.009, "upper_bound": 0.012})]})
        self.assertEqual(rows["hobbit"][4], "9.00 / 12.00 / 15.00")
        self.assertEqual(rows["hobbit"][6], "50.0% / 50.0%")
        self.assertEqual(rows["hobbit"][13:15], ["0.0200", "0.90%, 1.20%"])
        self.assertEqual(cells({"lru": [run(100)]})["lru"][6:8], ["50.0% / -", "-"])

    def test_chosen_experts_are_counted_by_precision(self):
        changes = {"demanded_per_token": 36, "lowered_per_token": 10, "skipped_per_token": 4}
        self.assertEqual(cells({"hobbit": [run(100, **changes)]})["hobbit"][7], "65.0% / 25.0% / 10.0%")

    def test_forecasts_are_counted_beside_runs_of_the_same_work(self):
        said = preset_table.closeness({"25%": {"auto": [run(100, 10.5e6), run(130, 10.5e6), run(125, 7.5e6)]}})
        self.assertIn("forecasts' medians 1 of 1", said)  # 1.05, 1.37 and 0.94.
        self.assertIn("run by run 2 of 3", said)
        self.assertIn("a round before 1 of 2", said)

    def test_a_row_has_as_many_cells_as_the_head(self):
        head = preset_table.head(["lru", "auto"]).splitlines()[0]
        self.assertEqual(head.count("|"), next(iter(preset_table.rows("25%", {"auto": [run(100)]}))).count("|"))
