"""Cgroups around a command: of memory (v1 or v2), for the tests that prove a budget, and of a disk's rate (v1)."""
import os
import subprocess
from pathlib import Path

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


def unavailable():
    """Why no cgroup can be made here, or None."""
    try:
        with Group(1 << 30):
            return None
    except OSError as error:
        return f"no writable memory cgroup: {error}"


def drop_page_cache():
    """Drops page cache, so that mapped pages are charged to the command and not to an earlier reader. Ignores a refusal."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        pass


def whole_pages(size):
    """So many bytes and what is missing of their last page: limits are in pages."""
    return -(-size // 4096) * 4096


class Group:
    """A cgroup that limits memory and swap together; gone after the with-block."""

    def __init__(self, limit):
        self.limit = limit
        self.v1 = (V1 / "memory.limit_in_bytes").exists()
        self.path = (V1 if self.v1 else V2) / f"moe-test-{os.getpid()}"

    def __enter__(self):
        self.path.mkdir()
        try:
            if self.v1:
                self.write("memory.limit_in_bytes", self.limit)
                # Memory is charged to both limits, to this one first, and Linux 6.18 does not count when this one is reached.
                if (self.path / "memory.memsw.limit_in_bytes").exists():
                    self.write("memory.memsw.limit_in_bytes", self.limit + (1 << 20))
            else:
                self.write("memory.max", self.limit)
                if (self.path / "memory.swap.max").exists():
                    self.write("memory.swap.max", 0)
        except OSError:
            self.path.rmdir()
            raise
        return self

    def __exit__(self, *_):
        self.path.rmdir()

    def write(self, name, value):
        (self.path / name).write_text(str(value))

    def wish(self, size):
        """The size that the group is to keep to, below its limit."""
        self.write("memory.soft_limit_in_bytes" if self.v1 else "memory.high", size)

    def limit_to(self, limit):
        """Another limit; an error (v1) or a kill (v2) if the group has more than can be reclaimed."""
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"] if self.v1 else ["memory.max"]
        sizes = [limit, limit + (1 << 20)]
        pairs = [(name, size) for name, size in zip(names, sizes) if (self.path / name).exists()]
        for name, size in pairs if limit < self.limit else reversed(pairs):
            self.write(name, size)
        self.limit = limit

    def run(self, command, timeout=300, **options):
        """The finished process; it and its children ran inside."""
        return subprocess.run(command, capture_output=True, timeout=timeout, preexec_fn=self.join, **options)

    def join(self):
        """Moves the calling process into the group."""
        (self.path / "cgroup.procs").write_text("0")

    def fields(self, name):
        lines = (self.path / name).read_text().splitlines()
        return {words[0]: int(words[1]) for words in map(str.split, lines) if len(words) == 2}

    def times_at_limit(self):
        """How often an allocation found the limit reached, whether or not something could be reclaimed."""
        return int((self.path / "memory.failcnt").read_text()) if self.v1 else self.fields("memory.events")["max"]

    def oom_kills(self):
        return self.fields("memory.oom_control" if self.v1 else "memory.events")["oom_kill"]

    def peak(self):
        name = "memory.max_usage_in_bytes" if self.v1 else "memory.peak"
        return int((self.path / name).read_text()) if (self.path / name).exists() else 0


class DiskRate:
    """A cgroup (v1) whose processes read so many bytes a second at most from the disk that holds a path."""

    def __init__(self, path, bytes_per_second):
        device = os.stat(path).st_dev
        self.rule = f"{os.major(device)}:{os.minor(device)} {bytes_per_second}"
        self.path = Path(f"/sys/fs/cgroup/blkio/moe-test-{os.getpid()}")

    def __enter__(self):
        self.path.mkdir()
        try:
            (self.path / "blkio.throttle.read_bps_device").write_text(self.rule)
        except OSError:
            self.path.rmdir()
            raise
        return self

    def __exit__(self, *_):
        self.path.rmdir()

    @classmethod
    def unavailable(cls, path):
        """Why the disk that holds a path cannot be held to a rate here, or None."""
        try:
            with cls(path, 1 << 30):
                return None
        except OSError as error:
            return f"no writable blkio cgroup: {error}"

    def join(self):
        """Moves the calling process into the group."""
        (self.path / "cgroup.procs").write_text("0")
