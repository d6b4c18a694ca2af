"""What the end-to-end tests share: running the programs, artifacts compiled once, and reading safetensors.

Python's standard library only. The programs are those of build/release/bin, or of MOE_BUILD/bin.
"""
import array
import functools
import hashlib
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MOE_BUILD", ROOT / "build/release")).resolve()
DATA = ROOT / "tests/data"
POCKET = DATA / "pocket-moe"
SCRATCH = ROOT / "build/e2e" / os.environ.get("MOE_E2E_WORKER", "")
FULL = os.environ.get("MOE_FULL") == "1"
slow = unittest.skipUnless(FULL, "takes --full")

# Exit codes of the command line.
DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130

Done = namedtuple("Done", "status out err")  # out and err as text


@functools.cache
def documents(kind, count, first=0):
    """A .jsonl file of some of the documents that the bundled model has written: calibration, acceptance, validation."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    path = SCRATCH / f"{kind}-{first}-{count}.jsonl"
    lines = (DATA / "documents" / f"{kind}.jsonl").read_text().splitlines(keepends=True)
    path.write_text("".join(lines[first:first + count]))
    return path


@functools.cache
def plain_text(kind):
    """All of these documents as one text."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    path = SCRATCH / f"{kind}.txt"
    lines = (DATA / "documents" / f"{kind}.jsonl").read_text().splitlines()
    path.write_text("\n\n".join(json.loads(line)["text"] for line in lines) + "\n")
    return path


def program(name):
    path = BUILD / "bin" / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; run tools/build")
    return str(path)


# What makes `moec compile` calibrate, or not, by its own words.
OF_CALIBRATION = re.compile(r"--(calibration.*|self-text|accuracy-.*|eval-text|quantizer|no-calibration)$")


def command(name, *args):
    """The words of a command. A compile that says nothing of calibration has none, which takes seconds: most tests need an
    artifact, not its quality."""
    words = [str(word) for word in args]
    if name == "moec" and words[:1] == ["compile"] and not any(map(OF_CALIBRATION.match, words)):
        words.append("--no-calibration")
    return [program(name), *words]


def run(name, *args, stdin="", timeout=600, **options):
    """Runs a program of ours to its end; never raises on its exit status."""
    done = subprocess.run(command(name, *args), input=stdin if isinstance(stdin, bytes) else stdin.encode(), capture_output=True, timeout=timeout,
                          **options)
    return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def start(name, *args, **options):
    """A running program of ours; only its stderr is kept."""
    return subprocess.Popen(command(name, *args), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)


def without_threads():
    """For preexec_fn: a thread's stack is as large as the limit of stacks, and no room is left for another one."""
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 46, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def interrupt(process, how, delay):
    """Sends a signal after a delay, unless the end comes first: exit status and stderr of a started program."""
    try:
        process.communicate(timeout=delay)
    except subprocess.TimeoutExpired:
        process.send_signal(how)
    return ended(process)


def interrupt_at(process, how, path):
    """The same once a file exists, which is surely in the middle of the run."""
    wait_for(process, path)
    process.send_signal(how)
    return ended(process)


def wait_for(process, path, pattern=None, seconds=120):
    """Waits until a file, or one of the pattern in a folder, exists or the process has ended; an error after a timeout."""
    deadline = time.monotonic() + seconds
    while not (any(Path(path).glob(pattern)) if pattern else Path(path).exists()) and process.poll() is None:
        if time.monotonic() > deadline:
            process.kill()
            raise AssertionError(f"after {seconds} s there is no {path}")
        time.sleep(0.002)


def ended(process):
    error = process.communicate(timeout=60)[1]
    return process.returncode, error.decode(errors="replace")


def small_disks(place):
    """How to run a command in a namespace of its own, where it may mount a small disk at a folder; or None."""
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        try:
            if subprocess.run([*unshare, "sh", "-c", f"mount -t tmpfs none '{place}'"], capture_output=True).returncode == 0:
                return unshare
        except FileNotFoundError:
            return None
    return None


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def calibrated_pocket(folder, tokens=2048):
    """A calibration profile of the bundled checkpoint in the folder."""
    profile = Path(folder, "pocket.profile")
    done = run("moec", "calibrate", POCKET, "--calibration-text", plain_text("calibration"), "--tokens", tokens, "-o", profile)
    assert done.status == DONE, done.err
    return profile


class E2eTest(unittest.TestCase):
    """A test with a folder of its own, which goes when the test has passed or failed."""

    maxDiff = 2000

    def setUp(self):
        SCRATCH.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=SCRATCH)
        self.addCleanup(folder.cleanup)
        self.scratch = Path(folder.name)
        # Acceptance tests of another test do not count: each keeps a record of its own.
        state = tempfile.TemporaryDirectory(dir=SCRATCH)
        self.addCleanup(state.cleanup)
        os.environ["XDG_STATE_HOME"] = state.name

    def expect(self, status, name, *args, **options):
        done = run(name, *args, **options)
        self.assertEqual(done.status, status, f"{name} {' '.join(map(str, args))}\n{done.out[-2000:]}{done.err[-4000:]}")
        return done

    def refused(self, name, *args, mention=None, **options):
        """Exit 2, a reason on stderr, nothing on stdout."""
        done = self.expect(REFUSED, name, *args, **options)
        self.assertEqual(done.out, "")
        self.assertRegex(done.err, r"\S")
        if mention:
            self.assertRegex(done.err, mention)
        return done

    def is_there_whole(self, output, whole):
        """Whether an interrupted program left its output: a signal may come after the renaming, but no partial file is left."""
        if output.exists():
            self.assertEqual(digest(output), digest(whole))
        return output.exists()

    def documented(self, said, page):
        """Checks that the page names every key of a JSON object, those of inner objects included."""
        named = set(re.findall(r"`(\w+)`", (ROOT / page).read_text()))
        self.assertEqual(sorted(keys_of(said) - named), [], page)

    def write_ids(self, ids, name="ids.txt"):
        path = self.scratch / name
        path.write_text(" ".join(map(str, ids)) + "\n")
        return path


def keys_of(said):
    if isinstance(said, list):
        return set().union(*map(keys_of, said))
    return set(said).union(*map(keys_of, said.values())) if isinstance(said, dict) else set()


@functools.cache
def artifact(checkpoint, *flags):
    """The artifact of a checkpoint, compiled at the first call of this process."""
    folder = SCRATCH / "artifacts"
    folder.mkdir(parents=True, exist_ok=True)
    words = [Path(checkpoint).name, *(f.lstrip("-") for f in flags)]
    path = folder / ("_".join(words) + ".moe")
    path.unlink(missing_ok=True)
    done = run("moec", "compile", checkpoint, "-o", path, *flags)
    if done.status != DONE:
        raise AssertionError(f"moec compile {checkpoint} {' '.join(flags)}: exit {done.status}\n{done.err[-4000:]}")
    return path


def pocket(bits="4"):
    """The bundled model at `source`, or at a width with its usual resident weights."""
    return artifact(POCKET, "--bits", bits, *(["--resident-bits", "source"] if bits == "source" else []))


def sizes(path):
    """The output of `moec inspect` for an artifact."""
    return json.loads(run("moec", "inspect", path, "--json").out)


def smallest_budget(*command):
    """The smallest --memory of a moert command in bytes, from its message when it refuses one KiB."""
    done = run("moert", *command, "--memory", "1KiB")
    found = re.search(r"smallest\D*(\d+) bytes", done.err)
    if done.status != REFUSED or not found:
        raise AssertionError(f"moert names no smallest budget: exit {done.status}\n{done.err}")
    return int(found[1])


Tensor = namedtuple("Tensor", "shape values")  # values: a flat array


def read_safetensors(path):
    """All tensors of a file with F32 and I32 tensors."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = array.array({"F32": "f", "I32": "i"}[entry["dtype"]])
        values.frombytes(data[begin:end])
        if sys.byteorder == "big":
            values.byteswap()
        tensors[name] = Tensor(entry["shape"], values)
    return tensors


def device_with_memory(device, available, path):
    """A device profile's copy in which a process may take so many bytes."""
    text, count = re.subn(r"(?m)^(  available_bytes: !\w+) \d+", rf"\1 {available}", Path(device).read_text())
    assert count == 1, device
    path.write_text(text)
    return path


def copied(path, folder, name="copy.moe"):
    target = Path(folder) / name
    shutil.copyfile(path, target)
    return target
