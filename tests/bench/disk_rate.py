"""The rate of a disk while it is busy, by the system's counters, for a program and for fio.

The system samples whether a disk is busy at its tick, 4 ms at 250 Hz: over some seconds that is right to a few percent, however short
the reads are (kernels before 6.14 count a tick for each short read, which makes the disk look slower).
"""
import math
import os
import shlex
import subprocess
import sys
import time
from collections import namedtuple
from contextlib import contextmanager
from pathlib import Path

PERIOD_NS = 50_000_000
LEAST_NS = 500_000_000
FIO_SECONDS = 1
HUGE_PAGE_BYTES = 2 << 20

# Bytes read; ns in which at least one request was under way; the sum of all reading requests' ns.
Counters = namedtuple("Counters", "bytes busy_ns reads_ns")


class Delivered(namedtuple("Delivered", "bytes busy_ns reads_ns wall_ns")):
    @property
    def rate(self):
        """Bytes a second while busy."""
        return 1e9 * self.bytes / self.busy_ns

    @property
    def depth(self):
        """Mean number of requests in flight while busy, as the disk receives them: smaller than a record."""
        return self.reads_ns / self.busy_ns


def counters(text):
    """Of a stat file in /sys/dev/block (Documentation/block/stat.rst of Linux: 512 bytes a sector, times in ms)."""
    fields = list(map(int, text.split()))
    return Counters(512 * fields[2], 1_000_000 * fields[9], 1_000_000 * fields[3])


def delivered(before, after, wall_ns):
    return Delivered(*(late - early for early, late in zip(before, after)), wall_ns)


def stat_of(path):
    """The stat file of the disk that holds a file; None where there is none, as with file systems over several disks."""
    device = os.stat(path).st_dev
    stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    return stat if stat.exists() else None


def watched_run(arguments, output, stat=None, group=None):
    """The finished process, with stdout in a file, and samples meanwhile: time, whether anything was written, counters."""
    samples = []
    with open(output, "wb") as out:
        with subprocess.Popen(arguments, stdout=out, stderr=subprocess.PIPE, text=True,
                              preexec_fn=group.join if group else None) as process:
            while stat and process.poll() is None:
                time.sleep(PERIOD_NS / 1e9)
                samples.append((time.monotonic_ns(), os.fstat(out.fileno()).st_size > 0, counters(stat.read_text())))
            _, errors = process.communicate()
    return process.returncode, errors, samples


def while_decoding(samples, decode_ns):
    """What was delivered from the first sample with output on, which is written once the prompt is in, for as long as decoding
    surely went on; None where that is too short."""
    begun = [sample for sample in samples if sample[1]]
    if not begun:
        return None
    begin, _, before = begun[0]
    end, _, after = [sample for sample in begun if sample[0] - begin <= max(0, decode_ns - PERIOD_NS)][-1]
    return delivered(before, after, end - begin) if end - begin >= LEAST_NS else None


@contextmanager
def huge_pages(size, setting=Path("/proc/sys/vm/nr_hugepages")):
    """Temporarily reserves pages of 2 MiB for so many more bytes; returns whether the system has them."""
    before, wanted = 0, -1
    try:
        before = int(setting.read_text())
        wanted = before + -(-size // HUGE_PAGE_BYTES)
        setting.write_text(str(wanted))
    except OSError:
        wanted = -1
    try:
        yield wanted >= 0 and int(setting.read_text()) == wanted
    finally:
        if wanted >= 0:
            setting.write_text(str(before))


def fio_command(path, record_bytes, depth, is_huge):
    """Whole records from anywhere in the file, past the page cache, with what the runtime uses too: io_uring, registered buffers on
    huge pages. On small ones the disk's requests are smaller, and it reads a quarter less on the machine that this was written on."""
    return ["fio", "--name=reference", f"--filename={path}", "--readonly", "--direct=1", "--ioengine=io_uring", "--fixedbufs=1",
            "--rw=randread", "--randrepeat=0", f"--bs={record_bytes}", f"--iodepth={depth}", f"--runtime={FIO_SECONDS}", "--time_based",
            "--output-format=json"] + (["--iomem=mmaphuge"] if is_huge else [])


def fio(path, record_bytes, depth, stat):
    """What the disk delivers to fio, and whether fio used huge pages."""
    with huge_pages((depth + 1) * record_bytes + 2 * HUGE_PAGE_BYTES) as is_huge:
        before, begin = counters(stat.read_text()), time.monotonic_ns()
        command = fio_command(path, record_bytes, depth, is_huge)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{shlex.join(command)}: exit {done.returncode}\n{done.stderr}")
        return delivered(before, counters(stat.read_text()), time.monotonic_ns() - begin), is_huge


def nearest(references, depth):
    """Of what fio had, by its depth, the depth at which the disk had about as many requests under way."""
    return min(references, key=lambda records: abs(math.log(references[records].depth / depth)))
