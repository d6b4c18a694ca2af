"""The models of tests/bench/token-time: the replayed critical path of a step, and a disk's counters while decoding."""
import sys
import unittest

from support import ROOT, E2eTest

sys.path.insert(0, str(ROOT / "tests/bench"))
import critical_path
import disk_rate
from critical_path import ReadTable, Turn

MS = 1_000_000
MB = 1_000_000
EVEN = ReadTable({(size, depth): 1e9 for size in (4096, 4 * MB) for depth in (1, 16)})  # 1 ms for 1 MB, however many
LATENT = ReadTable({(size, depth): 1e9 * depth for size in (4096, 4 * MB) for depth in (1, 16)})  # 1 ms for any number of 1 MB
RECORDS = {0: MB, 1: MB}


def turn(layer=0, **changes):
    """1 ms before the router, 0.2 ms beside, an expert 0.1 ms."""
    given = dict(before_ns=1 * MS, beside_ns=0.2 * MS, hits=0, expert_ns=0.1 * MS, check_ns=0, size=MB, demanded=0, useful=0, prefetched=[])
    return Turn(layer, **(given | changes))


def ms(turns, table=EVEN, other_ns=0):
    return round(critical_path.replay(turns, other_ns, table, RECORDS) / MS, 6)


class ReplayTest(unittest.TestCase):
    def test_without_reads_a_step_is_its_computing(self):
        self.assertEqual(ms([turn(hits=4), turn(1, hits=4)], other_ns=2 * MS), 2 * (1 + 0.2 + 0.4) + 2)

    def test_a_missing_expert_is_read_beside_what_is_there_and_computed_behind_its_read(self):
        self.assertEqual(ms([turn(hits=3, demanded=1)]), 1 + 1 + 0.1)
        self.assertEqual(ms([turn(hits=3, demanded=1, check_ns=0.3 * MS)]), 1 + 1 + 0.3 + 0.1)
        self.assertEqual(ms([turn(hits=9, demanded=1)]), 1 + 0.2 + 0.9 + 0.1)  # The read has long ended.

    def test_reads_share_the_disk_and_the_first_one_is_computed_while_the_next_is_read(self):
        self.assertEqual(ms([turn(demanded=3)]), 1 + 3 + 0.1)
        self.assertEqual(ms([turn(demanded=3, expert_ns=5 * MS)]), 1 + 1 + 3 * 5)

    def test_reads_that_one_alone_does_not_fill_the_disk_with_end_together(self):
        self.assertEqual(ms([turn(demanded=2)], LATENT), 1 + 1 + 0.2)

    def test_what_was_prefetched_is_read_from_the_layer_before_on(self):
        self.assertEqual(ms([turn(prefetched=[1]), turn(1, useful=1)]), 2.5)  # There in time.
        late = [turn(demanded=1, prefetched=[1]), turn(1, before_ns=0.1 * MS, useful=1)]
        self.assertEqual(ms(late), 1 + 2 + 0.1)  # After the read of the layer itself.

    def test_a_prefetch_in_vain_holds_the_next_reads_up(self):
        turns = [turn(prefetched=[None]), turn(1, before_ns=0.3 * MS, demanded=1)]
        self.assertEqual(ms(turns), 1 + 1 + 1 + 0.1)


class TableTest(unittest.TestCase):
    TEXT = ("disk:\n  backend: !measured uring\n  direct:\n"
            "    - {bytes: 4096, depth: 1, bytes_per_second: !measured 1e+07}\n    - {bytes: 4096, depth: 4, bytes_per_second: !stated 2e+07}\n"
            "    - {bytes: 65536, depth: 1, bytes_per_second: !measured 4e+08}\n    - {bytes: 65536, depth: 4, bytes_per_second: !measured 8e+08}\n"
            "  buffered:\n    - {bytes: 4096, depth: 1, bytes_per_second: !measured 5e+06}\n")

    def test_measured_points_are_themselves_and_others_lie_between_them(self):
        table = ReadTable.of(self.TEXT)
        self.assertAlmostEqual(table.read_ns(4096, 4), 1e9 * 4 * 4096 / 2e7, places=3)
        self.assertAlmostEqual(table.read_ns(65536, 1), 1e9 * 65536 / 4e8, places=3)
        middle = (table.read_ns(4096, 1) * table.read_ns(4096, 4) * table.read_ns(65536, 1) * table.read_ns(65536, 4)) ** 0.25
        self.assertAlmostEqual(table.read_ns(16384, 2), middle, places=3)
        self.assertAlmostEqual(table.read_ns(131072, 8), 4 * table.read_ns(65536, 4), places=3)

    def test_the_backend_says_which_table_counts(self):
        self.assertEqual(ReadTable.of(self.TEXT.replace("uring", "buffered")).rates, {(4096, 1): 5e6})
        self.assertIsNone(ReadTable.of("memory:\n"))


class TurnsTest(unittest.TestCase):
    PARTS = {"norms": 70, "quantizing": 10, "attention_products": 20, "attention": 15, "router": 5, "dense": 30, "prefetches": 4, "sums": 6,
             "experts": 40, "head": 7, "requests": 5, "checksums": 40}
    PROFILE = {"layers": 2, "parts": list(PARTS)}
    # 8 experts of 5, 4 checksums of 10, asking 5; of the rest, 80 in the first layer, three quarters lie before the router.
    STEP = {"part_ns": list(PARTS.values()), "compute_ns": [80 + 20 + 30 + 5, 80 + 20 + 10, 7], "hits": [1, 3, 0],
            "misses": [3, 1, 0], "useful": [0, 1, 0], "bytes_read": [5 * MB, 0, 0], "prefetch_bytes": [2 * MB, 0, 0]}

    def test_a_layer_s_computing_is_shared_out(self):
        (first, second), other_ns = critical_path.turns(self.PROFILE, self.STEP, RECORDS, {1: 1})
        self.assertEqual(other_ns, 7)
        self.assertEqual((first.expert_ns, first.check_ns), (5, 10))
        self.assertEqual((first.demanded, first.useful, first.size, first.prefetched), (3, 0, MB, [1, None]))
        self.assertEqual((second.hits, second.demanded, second.useful, second.prefetched), (3, 0, 1, []))
        self.assertEqual(first.before_ns, 60)
        self.assertEqual(first.beside_ns, 20 + 5)
        everything = sum(each.before_ns + each.beside_ns + (each.hits + each.demanded + each.useful) * each.expert_ns
                         + (each.demanded + each.useful) * each.check_ns for each in (first, second))
        self.assertAlmostEqual(everything + other_ns, sum(self.STEP["compute_ns"]))

    def test_what_only_comes_with_reading_can_be_left_out(self):
        (first, _), _ = critical_path.turns(self.PROFILE, self.STEP, RECORDS, {1: 1}, is_bare=True)
        self.assertEqual((first.check_ns, first.prefetched), (0, [1]))
        self.assertEqual(first.beside_ns, 20)

    def test_prefetches_are_read_as_far_ahead_as_the_plan_says_wherever_they_were_counted(self):
        step = {"useful": [0, 0, 1, 1], "prefetch_bytes": [2 * MB, 0, MB, MB]}
        found = critical_path.prefetches_of(step, {0: MB, 1: MB, 2: MB, 3: MB}, {2: 2, 3: 1})
        self.assertEqual(found, {0: [2, None], 1: [], 2: [3], 3: [None]})


class DiskTest(E2eTest):
    def test_counters_are_bytes_and_time_of_reads(self):
        text = "  12 3 16 40 5 6 7 80 1 90 130 0 0 0 0 0 0\n"
        self.assertEqual(disk_rate.counters(text), (16 * 512, 90 * MS, 40 * MS))

    def test_a_rate_is_of_the_busy_time_alone(self):
        delivered = disk_rate.delivered(disk_rate.Counters(1000, 1 * MS, 2 * MS), disk_rate.Counters(4_001_000, 3 * MS, 10 * MS), 50 * MS)
        self.assertEqual(delivered, (4_000_000, 2 * MS, 8 * MS, 50 * MS))
        self.assertEqual((delivered.rate, delivered.depth), (2e9, 4))

    def test_decoding_begins_with_the_first_output_and_ends_before_the_run_does(self):
        samples = [(at * 100 * MS, at >= 3, disk_rate.Counters(at * 1000, at * MS, at * MS)) for at in range(20)]
        self.assertEqual(disk_rate.while_decoding(samples, 1000 * MS), (9000, 9 * MS, 9 * MS, 900 * MS))  # Samples 3 to 12.
        self.assertIsNone(disk_rate.while_decoding(samples, 400 * MS))
        self.assertIsNone(disk_rate.while_decoding(samples[:3], 1000 * MS))

    def test_a_run_is_watched_while_it_goes_on(self):
        stat, said = self.scratch / "stat", self.scratch / "said"
        stat.write_text("0 0 2 0 0 0 0 0 0 1 0")
        script = "sleep 1; echo begun; sleep 1; echo ended >&2; exit 3"  # Some 20 samples of each.
        status, errors, samples = disk_rate.watched_run(["sh", "-c", script], said, stat)
        self.assertEqual((status, errors, said.read_text()), (3, "ended\n", "begun\n"))
        self.assertEqual({counted for _, _, counted in samples}, {(1024, MS, 0)})
        self.assertEqual(sorted({begun for _, begun, _ in samples}), [False, True])

    def test_huge_pages_are_given_back_and_done_without_where_refused(self):
        setting = self.scratch / "nr_hugepages"
        setting.write_text("3\n")
        with disk_rate.huge_pages(5 << 20, setting) as is_huge:
            self.assertEqual((is_huge, setting.read_text()), (True, "6"))
        self.assertEqual(setting.read_text(), "3")
        with disk_rate.huge_pages(5 << 20, self.scratch / "nothing/there") as is_huge:
            self.assertFalse(is_huge)
        command = lambda is_huge: disk_rate.fio_command("a.moe", 4096, 1, is_huge)
        self.assertEqual(command(True), command(False) + ["--iomem=mmaphuge"])

    def test_a_run_is_held_against_the_depth_that_gives_the_disk_as_many_requests(self):
        of = lambda depth: disk_rate.Delivered(1, MS, depth * MS, MS)
        references = {1: of(2), 2: of(5), 4: of(9)}
        self.assertEqual([disk_rate.nearest(references, depth) for depth in (0.5, 2.9, 4, 20)], [1, 1, 2, 4])
