"""Runs on a device give the bytes of the processor. The device is emulated: a library in the place of libmoert_cuda.so."""
import os
import re
import shutil
import subprocess

from support import BUILD, DATA, DONE, POCKET, REFUSED, E2eTest, artifact, pocket, read_safetensors
from test_golden import part

SOURCE = ("--bits", "source", "--resident-bits", "source")
TEXT_IDS = [5, 17, 90, 3, 3, 41, 60, 2, 88, 12, 7, 31, 55, 20, 1, 95, 64, 9]


class DeviceTest(E2eTest):
    """`self.moert` is a copy of moert beside which the emulated library lies."""

    def setUp(self):
        super().setUp()
        self.moert = self.scratch / "moert"
        shutil.copy(BUILD / "bin/moert", self.moert)
        shutil.copy(BUILD / "tests/libemulated_device.so", self.scratch / "libmoert_cuda.so")

    def on_device(self, *args, device="cuda:0", memory=1 << 28, status=DONE):
        done = subprocess.run([str(self.moert), *map(str, args), "--device", device], capture_output=True, text=True, timeout=600,
                              env={**os.environ, "EMULATED_DEVICE_BYTES": str(memory)})
        self.assertEqual(done.returncode, status, done.stderr[-4000:])
        return done

    def compare(self, path, ids):
        host, device = self.scratch / "host.safetensors", self.scratch / "device.safetensors"
        self.expect(DONE, "moert", "logits", path, "--ids", ids, "-o", host)
        for options in (("--memory", "100%", "--device-memory", "100%"), ("--memory", "25%", "--device-memory", "25%", "--prefill-chunk", 5),
                        ("--memory", "100%", "--device-memory", "25%", "--prefill-chunk", 1)):
            with self.subTest(path=path.name, options=options):
                self.on_device("logits", path, "--ids", ids, "-o", device, *options)
                self.assertEqual(device.read_bytes(), host.read_bytes())

    def test_the_bundled_model_has_the_processor_s_bytes(self):
        ids = self.write_ids(TEXT_IDS)
        for path in (pocket("source"), artifact(POCKET, "--bits", "4", "--kv-bits", "8")):
            self.compare(path, ids)

    def test_golden_models_have_the_processor_s_bytes(self):
        for name in ("mixtral", "qwen3_moe", "gpt_oss"):
            golden = read_safetensors(DATA / "golden" / name / "golden/golden.safetensors")
            self.compare(artifact(DATA / "golden" / name, *SOURCE), self.write_ids(part(golden["input_ids"], 0, 0)))

    def test_generated_text_is_the_same(self):
        words = ("run", pocket(), "-p", "The old clock", "-n", "12", "--memory", "50%")
        expected = self.expect(DONE, "moert", *words)
        self.assertEqual(self.on_device(*words, "--device-memory", "50%").stdout, expected.out)

    def test_the_account_is_shown_and_a_small_budget_refused_with_the_smallest(self):
        words = ("run", pocket(), "-p", "a", "-n", "1", "--memory-table")
        shown = self.on_device(*words, "--device-memory", "25%").stderr
        self.assertIn("memory of an emulated device", shown)
        refused = self.on_device(*words, "--device-memory", "1MiB", status=REFUSED).stderr
        smallest = re.search(r"smallest budget that works is \D*(\d+) bytes", refused)[1]
        self.on_device(*words, "--device-memory", smallest + "B")
        self.on_device(*words, "--device-memory", f"{int(smallest) - 1}B", status=REFUSED)

    def test_auto_computes_on_the_processor_where_no_device_can_and_names_why(self):
        words = ("run", pocket(), "-p", "a", "-n", "2", "--quiet")
        expected = self.expect(DONE, "moert", *words).out
        done = self.on_device(*words, device="auto", memory="")
        self.assertEqual(done.stdout, expected)
        self.assertRegex(done.stderr, r"the processor computes: GPU 0 cannot be used: there are 0")
        self.assertIn("GPU 1 cannot be used", self.on_device(*words, device="cuda:1", status=REFUSED).stderr)
        path = artifact(DATA / "golden/qwen3_next", *SOURCE)
        words = ("run", path, "--ids", self.write_ids([1, 2, 3]), "-n", "2")
        expected = self.expect(DONE, "moert", *words).out
        done = self.on_device(*words, device="auto")
        self.assertEqual(done.stdout, expected)
        self.assertRegex(done.stderr, r"the processor computes: .* has the instruction '\w+', which devices do not have")
        self.assertIn("which devices do not have", self.on_device(*words, status=REFUSED).stderr)

    def test_a_program_without_the_library_refuses_a_gpu_and_needs_none(self):
        (self.scratch / "libmoert_cuda.so").unlink()
        words = ("run", pocket(), "-p", "a", "-n", "1")
        self.assertIn("libmoert_cuda.so", self.on_device(*words, status=REFUSED).stderr)
        self.on_device(*words, device="cpu")
        self.assertIn("expected cpu, auto or cuda:N", self.on_device(*words, device="gpu", status=REFUSED).stderr)
