"""What a compile takes: wall and processor time, the disk at most, and how right the remaining time that it shows is.

    compile_costs.py [--log FILE] [--cores N] OUT COMMAND...

OUT is the command's output; OUT.work and what lies beside OUT count as disk, as blocks. The shown time is compared with what was left in truth,
from the first quarter of the whole on: the largest error relative to the truth, where at least a twentieth of the whole is left. On a machine that
others use too, --cores N takes processor time / N for time; the command has to do so as well, with a clock that is preloaded.
"""
import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
FIRST, LEAST_LEFT = 0.25, 0.05

# Seconds since the start, and the seconds that are left as a line showed them.
Shown = namedtuple("Shown", "at left")


def left_of(line):
    """The seconds in "..., 1 h 5 min left in all"; None in other lines."""
    found = re.search(r", ((?:\d+ ?(?:s|min|h|d) ?)+) ?left in all", line)
    return found and sum(int(n) * UNITS[unit] for n, unit in re.findall(r"(\d+) ?(s|min|h|d)\b", found[1]))


def errors(shown, whole):
    """(time, shown, true, relative error) of each line from the first quarter on."""
    late = [one for one in shown if one.at >= FIRST * whole and whole - one.at >= LEAST_LEFT * whole]
    return [(one.at, one.left, whole - one.at, abs(one.left - (whole - one.at)) / (whole - one.at)) for one in late]


def disk_bytes(out):
    total = 0
    for path in [*out.parent.glob(out.name + "*"), *Path(f"{out}.work").rglob("*")]:
        try:
            total += 512 * path.lstat().st_blocks
        except FileNotFoundError:
            pass
    return total


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(out, command, log=None, cores=None):
    """Runs the command: its status, the lines that showed a remaining time, wall and processor seconds, the bytes on disk at most."""
    most, ended = 0, threading.Event()

    def watch():
        nonlocal most
        while not ended.wait(0.2):
            most = max(most, disk_bytes(out))

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin, shown = time.monotonic(), []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            at = processor_seconds(process.pid) / cores if cores else time.monotonic() - begin
            left = left_of(line)
            if log:
                print(f"{at:8.1f} {most / 1e6:7.0f} {line}", end="", file=log, flush=True)
            if left is not None:
                shown.append(Shown(at, left))
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    ended.set()
    watcher.join()
    return process.returncode, shown, wall, used.ru_utime + used.ru_stime, most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=argparse.FileType("w"), default=sys.stderr, help="for the command's lines, with seconds and MB of disk")
    parser.add_argument("out", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    parser.add_argument("--cores", type=int)
    asked = parser.parse_args()
    status, shown, wall, processor, most = measure(asked.out, asked.command, asked.log, asked.cores)
    judged = errors(shown, processor / asked.cores if asked.cores else wall)
    print(f"wall {wall:.0f} s, processor {processor:.0f} s, disk at most {most / 1e6:.0f} MB")
    for at, left, true, error in judged:
        print(f"{at:6.0f} s: shown {left:5.0f} s, true {true:5.0f} s, error {error:.0%}")
    print(f"largest error {max(error for *_, error in judged):.0%}" if judged else "no remaining time was shown in time")
    return status


if __name__ == "__main__":
    sys.exit(main())
