"""How long a decoded token would take if only the dependencies between its parts cost time: the steps of a run profile, replayed
with the rates of a device profile. `tests/bench/token-time --help` lists the replay's assumptions.

The disk is that of compiler/plan/DiskTimeline: all reads in flight together have the rate that the device profile's table gives for their
number and size, and the oldest ones share it.
"""
import math
import re
from collections import namedtuple
from functools import cache

BEFORE_ROUTER = ("norms", "quantizing", "attention_products", "attention", "router")
BESIDE_READS = ("dense", "prefetches", "sums")
MOST_BYTES_AT_DISK = 2 << 20  # ReadQueueOptions::maxBytesUnderWay
SAME_RATE = 0.95  # Measured rates differ by some percent from depth to depth without a cause.

# One layer pass. Sizes in bytes; `prefetched`: later layers whose experts are prefetched here; None if no layer uses them.
Turn = namedtuple("Turn", "layer before_ns beside_ns hits expert_ns check_ns size demanded useful prefetched")


def place(axis, value):
    """The neighbours of a value on an ascending axis, and its place between them by logarithm."""
    value = min(max(value, axis[0]), axis[-1])
    above = next(i for i, each in enumerate(axis) if each >= value)
    if axis[above] == value:
        return value, value, 0
    low, high = axis[above - 1], axis[above]
    return low, high, math.log(value / low) / math.log(high / low)


def between(low, high, fraction):
    return low ** (1 - fraction) * high ** fraction


class ReadTable:
    """Bytes a second by the size of a read and the number of reads under way."""

    def __init__(self, rates):
        self.rates = rates
        self.sizes = sorted({size for size, _ in rates})
        self.depths = sorted({depth for _, depth in rates})

    @classmethod
    def of(cls, device_text):
        """The table of the backend that a run uses; None where the text has none."""
        backend = re.search(r"^  backend: *!\w+ +(\w+)", device_text, re.M)
        kind = "buffered" if backend and backend[1] == "buffered" else "direct"
        rows = re.search(rf"^  {kind}:\n((?:    - .*\n)+)", device_text, re.M)
        points = rows and re.findall(r"bytes: *(\d+), *depth: *(\d+), *bytes_per_second: *!\w+ +([\d.e+]+)", rows[1])
        return cls({(int(size), int(depth)): float(rate) for size, depth, rate in points}) if points else None

    def read_ns(self, size, depth):
        """Ns of one read while this many are in flight, which is the time in which this many end."""
        small, large, size_fraction = place(self.sizes, size)
        few, many, depth_fraction = place(self.depths, depth)
        cell = lambda size, depth: 1e9 * size * depth / self.rates[size, depth]
        at = lambda size: between(cell(size, few), cell(size, many), depth_fraction)
        return between(at(small), at(large), size_fraction) * max(1, size / self.sizes[-1]) * max(1, depth / self.depths[-1])

    def growing_ns(self, size, depth):
        """The same, made monotonic in their number."""
        times = [self.read_ns(size, count) for count in range(1, max(depth, self.depths[-1]) + 1)]
        return math.sqrt(max(times[:depth]) * min(times[depth - 1:]))

    @cache
    def pace(self, size, depth):
        """Ns until so many have ended, and how many are served at a time: as few as have the rate by themselves."""
        rate = lambda count: count / self.growing_ns(size, count)
        most = min(depth, -(-MOST_BYTES_AT_DISK // size))
        served = next((count for count in range(1, most) if rate(count) >= SAME_RATE * rate(depth)), most)
        return depth / rate(depth), served


class Disk:
    """Reads in flight on one disk, as time passes; `ended` holds the time when each one ended."""

    def __init__(self, table):
        self.table, self.now, self.reads, self.ended = table, 0.0, [], {}

    def begin(self, name, size):
        self.reads.append([name, size, 1.0])

    def pass_time(self, until=math.inf):
        """Advances until the next read ends, or for the given time."""
        _, served = self.table.pace(self.reads[0][1], len(self.reads))
        fraction = served / len(self.reads)
        times = [left * fraction * self.table.pace(size, len(self.reads))[0] for _, size, left in self.reads[:served]]
        passing = min(*times, until - self.now)
        self.now += passing
        for read, needed in zip(self.reads, times):
            read[2] = read[2] * (1 - passing / needed) if needed > passing + 1e-3 else 0
            if read[2] == 0:
                self.ended[read[0]] = self.now
        self.reads = [read for read in self.reads if read[2] > 0]

    def pass_until(self, ns):
        while self.reads and self.now < ns:
            self.pass_time(ns)
        self.now = max(self.now, ns)

    def end_of(self, name):
        while name not in self.ended:
            self.pass_time()
        return self.ended[name]


def turns(profile, step, record_bytes, ahead, is_bare=False):
    """A step's layers, and the ns of what belongs to none. record_bytes: a record's mean size by layer, of those with experts; ahead:
    by layer how many of these layers before its own it is prefetched. is_bare: without what only comes with reading, which is asking,
    checksums and prefetches that did not come true."""
    ns = dict(zip(profile["parts"], step["part_ns"]))
    total = lambda column: max(1, sum(step[column]))
    before, beside = (sum(ns[part] for part in parts) for parts in (BEFORE_ROUTER, BESIDE_READS))
    expert_ns = ns["experts"] / max(1, sum(step["hits"]) + sum(step["misses"]))
    check_ns = ns["checksums"] / total("misses")
    prefetches = prefetches_of(step, record_bytes, ahead)
    result = []
    for layer in range(profile["layers"]):
        hits, misses, useful = (step[column][layer] for column in ("hits", "misses", "useful"))
        requests = ns["requests"] * step["bytes_read"][layer] / total("bytes_read")
        own = max(0, step["compute_ns"][layer] - requests - (hits + misses) * expert_ns - misses * check_ns)
        fraction = before / max(1, before + beside) if hits + misses else 1
        demanded = misses - useful
        demanded_bytes = step["bytes_read"][layer] - step["prefetch_bytes"][layer]
        result.append(Turn(
            layer, fraction * own, (1 - fraction) * own + (0 if is_bare else requests), hits, expert_ns, 0 if is_bare else check_ns,
            demanded_bytes // demanded if demanded and demanded_bytes else round(record_bytes.get(layer, 0)), demanded, useful,
            [target for target in prefetches.get(layer, ()) if target is not None or not is_bare]))
    return result, step["compute_ns"][profile["layers"]]


def prefetches_of(step, record_bytes, ahead):
    """By the layer at whose turn prefetches are read: for which layer each one is. A profile counts a read with the turn that it was
    begun in or before; which ones came true is known by number alone."""
    layers = sorted(record_bytes)
    asked = {layer: round(step["prefetch_bytes"][layer] / record_bytes[layer]) for layer in layers}
    result = {layer: [] for layer in layers}
    for index, layer in enumerate(layers):
        first = max(0, index - ahead.get(layer, 1))
        result[layers[first]] += [layer] * step["useful"][layer]
        left = step["useful"][layer]
        for counted in layers[first:index + 1]:
            taken = min(left, asked[counted])
            asked[counted] -= taken
            left -= taken
    for layer in layers:
        result[layer] += [None] * asked[layer]
    return result


def replay(turns_of_step, other_ns, table, record_bytes):
    """Ns of a step."""
    disk, now = Disk(table), 0.0
    for turn in turns_of_step:
        now += turn.before_ns
        disk.pass_until(now)
        for index in range(turn.demanded):
            disk.begin((turn.layer, "demanded", index), turn.size)
        early = {}
        for target in turn.prefetched:
            early[target] = early.get(target, -1) + 1
            name = (target, turn.layer if target is None else "useful", early[target])
            disk.begin(name, round(record_bytes[turn.layer if target is None else target]))
        wanted = [(turn.layer, "demanded", index) for index in range(turn.demanded)]
        wanted += [(turn.layer, "useful", index) for index in range(turn.useful)]
        now += turn.beside_ns + turn.hits * turn.expert_ns
        for end in sorted(map(disk.end_of, wanted)):
            now = max(now, end) + turn.check_ns + turn.expert_ns
    return now + other_ns


def step_ns(profile, step, table, record_bytes, ahead, is_bare=False):
    return replay(*turns(profile, step, record_bytes, ahead, is_bare), table, record_bytes)
