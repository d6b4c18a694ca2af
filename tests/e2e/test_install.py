"""An installed tree works wherever it is moved to, and the runtime in it is thin."""
import shutil
import statistics
import subprocess
import time

from support import BUILD, DONE, POCKET, E2eTest, pocket

MOERT_BYTES = 4_400_000


class InstallTest(E2eTest):
    def setUp(self):
        super().setUp()
        first = self.scratch / "first"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", first, "--strip"], check=True, capture_output=True)
        self.tree = self.scratch / "moved"
        shutil.move(first, self.tree)

    def test_a_moved_tree_compiles_and_runs(self):
        bare = {"PATH": "/usr/bin:/bin"}
        model = self.scratch / "pocket.moe"
        done = subprocess.run([self.tree / "bin/moec", "compile", POCKET, "-o", model, "--bits", "4", "--no-calibration"], env=bare,
                              cwd="/", capture_output=True)
        self.assertEqual(done.returncode, DONE, done.stderr.decode())
        done = subprocess.run([self.tree / "bin/moert", "run", model, "-p", "The old man", "-n", "8", "--temp", "0"],
                              env=bare, cwd="/", capture_output=True)
        self.assertEqual(done.returncode, DONE, done.stderr.decode())
        self.assertGreater(len(done.stdout), 8)
        self.assertEqual(model.read_bytes(), pocket("4").read_bytes())
        for name in ("LICENSE", "THIRD_PARTY_NOTICES.md"):
            self.assertTrue((self.tree / "share/doc/moe" / name).is_file(), name)

    def test_moert_is_small_and_needs_neither_llvm_nor_yaml(self):
        moert = self.tree / "bin/moert"
        self.assertLessEqual(moert.stat().st_size, MOERT_BYTES)
        needed = subprocess.run(["readelf", "-d", moert], check=True, capture_output=True, text=True).stdout
        self.assertIn("NEEDED", needed)
        for library in ("LLVM", "MLIR", "yaml"):
            self.assertNotIn(library, needed)

    def test_starting_a_run_costs_little_more_than_starting_the_program(self):
        """Reported; asserted only as a ratio so generous that a busy machine cannot fail it."""
        def seconds(*arguments):
            begun = time.perf_counter()
            subprocess.run([self.tree / "bin/moert", *arguments], check=True, capture_output=True)
            return time.perf_counter() - begun

        nothing = statistics.median(seconds("--version") for _ in range(9))
        one_token = statistics.median(seconds("run", pocket("4"), "-p", "a", "-n", "1") for _ in range(9))
        print(f"moert --version {nothing * 1e3:.1f} ms, one token {one_token * 1e3:.1f} ms", end=" ... ")
        self.assertLess(one_token, 100 * nothing)
