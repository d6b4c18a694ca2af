"""moert probe: a device profile that the compiler reads, refusals, and nothing left behind."""
import contextlib
import os
import random
import re
import signal
import subprocess
import time
import unittest

import cgroups
import support
from support import BUILD, DONE, FAILED, FULL, INTERRUPTED, E2eTest, program


class ProbeTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.disk = self.scratch / "disk"
        self.disk.mkdir()
        self.output = self.scratch / "device.yaml"

    def is_device_profile(self, path):
        """Read by the compiler's own reader; no command of moec does nothing but that."""
        reader = BUILD / "tests/profiles_test"
        if not reader.is_file():
            self.skipTest("profiles_test is not built")
        done = subprocess.run([reader, "--test-case=a file that the program wrote*"], capture_output=True, text=True,
                              env={**os.environ, "MOE_PROBED_DEVICE": str(path)})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("SKIPPED", done.stdout)
        self.assertRegex(done.stdout, r"test cases: +1 \| +1 passed")

    def test_this_machine_is_measured_and_the_compiler_reads_what_it_gave(self):
        begun = time.perf_counter()
        done = self.expect(DONE, "moert", "probe", "-o", self.output, "--path", self.disk)
        print(f"{time.perf_counter() - begun:.1f} s", end=" ... ", flush=True)
        self.assertEqual(done.out, "")
        self.assertRegex(done.err, r"measuring: \d+%, .*left")
        self.assertRegex(done.err, rf"written to {re.escape(str(self.output))}")
        self.assertEqual(list(self.disk.iterdir()), [])
        self.is_device_profile(self.output)

    def test_a_file_that_is_there_is_read_at_no_rate_above_the_disk_s_and_stays(self):
        most = 100_000_000
        model = self.disk / "model"
        model.write_bytes(random.Random(1).randbytes(72 << 20))
        os.sync()
        reason = cgroups.DiskRate.unavailable(self.disk)
        with contextlib.nullcontext() if reason else cgroups.DiskRate(model, most) as disk:
            done = subprocess.run([program("moert"), "probe", "-o", self.output, "--path", model], capture_output=True,
                                  text=True, preexec_fn=disk and disk.join)
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertEqual([file.name for file in self.disk.iterdir()], ["model"])
        self.assertEqual(model.stat().st_size, 72 << 20)
        self.assertIn("from a file of 72.0 MiB", self.output.read_text())
        self.is_device_profile(self.output)
        if reason:
            self.skipTest(f"rates are not compared with the disk's: {reason}")
        direct = self.output.read_text().split("  direct:")[1].split("  buffered:")[0]
        rates = [float(rate) for rate in re.findall(r"bytes_per_second: !\w+ (\S+)}", direct)]
        self.assertGreater(max(rates), 0.7 * most)
        # Linux hands the rate out in portions of a tenth of a second, of which half a second may see six; 1.1 times that is noise.
        self.assertLessEqual(max(rates), 1.33 * most)

    def test_an_interrupted_probe_leaves_nothing(self):
        for delay in (0.2, 2) if not FULL else (0, 0.1, 0.5, 1, 3, 8, 12, 15):
            with self.subTest(delay=delay):
                started = support.start("moert", "probe", "-o", self.output, "--path", self.disk)
                status, error = support.interrupt(started, signal.SIGINT, delay)
                # Before the handler is installed, the signal kills the process.
                self.assertIn(status, (INTERRUPTED, -signal.SIGINT), error)
                self.assertEqual(list(self.disk.iterdir()), [])
                self.assertFalse(self.output.exists())
                self.assertEqual({f.name for f in self.scratch.iterdir()}, {"disk"})

    def test_a_killed_probe_leaves_nothing_on_the_disk(self):
        started = support.start("moert", "probe", "-o", self.output, "--path", self.disk)
        self.assertEqual(support.interrupt(started, signal.SIGKILL, 1)[0], -signal.SIGKILL)
        self.assertEqual(list(self.disk.iterdir()), [])
        self.assertFalse(self.output.exists())

    def test_what_cannot_be_probed_or_written_is_refused_before_anything_is_measured(self):
        plain = self.scratch / "plain"
        plain.write_text("")
        self.refused("moert", "probe", mention="--output is required")
        self.refused("moert", "probe", "-o", self.output, "--path", self.scratch / "missing", mention="missing")
        self.refused("moert", "probe", "-o", self.output, "--path", plain, mention="plain has 0 B, expected a file of at least 64.0 MiB, or a folder")
        self.refused("moert", "probe", "-o", self.output, "--path", "/dev/null", mention="is neither a folder nor a file")
        self.refused("moert", "probe", "-o", plain, "--path", plain, mention="would replace")
        self.refused("moert", "probe", "-o", self.scratch / "no/device.yaml", mention="there is no directory")
        self.refused("moert", "probe", "-o", self.disk, mention="is a directory")
        self.assertFalse(self.output.exists())

    def on_small_disk(self, size):
        unshare = support.small_disks(self.scratch)
        if not unshare:
            self.skipTest("no disk of a chosen size can be mounted here")
        script = 'mount -t tmpfs -o size="$1" none "$2" && "$3" probe -o "$4" --path "$2"; status=$?; ls -A "$2"; exit $status'
        return subprocess.run([*unshare, "sh", "-c", script, "sh", size, self.disk, program("moert"), self.output],
                              capture_output=True, text=True, timeout=120)

    def test_a_disk_without_room_is_an_error_that_says_so(self):
        done = self.on_small_disk("100m")
        self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done.stderr)
        self.assertRegex(done.stderr, r"the probe needs \S+ MiB, free on the disk: \S+ MiB")
        self.assertFalse(self.output.exists())

    @unittest.skipUnless(FULL, "--full")
    def test_a_file_system_in_memory_is_measured_with_what_room_it_has(self):
        done = self.on_small_disk("200m")
        self.assertEqual((done.returncode, done.stdout), (DONE, ""), done.stderr)
        self.is_device_profile(self.output)
