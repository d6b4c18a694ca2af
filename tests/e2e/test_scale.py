"""A model of real matrix sizes, larger than its budget: takes --full and a checkpoint named by MOE_WIDE_CHECKPOINT.

The checkpoint is any supported one; its experts should be megabytes each. Nothing of it is kept.
"""
import os
from pathlib import Path

import cgroups
from support import DONE, FULL, E2eTest, artifact, program, smallest_budget


class ScaleTest(E2eTest):
    def setUp(self):
        super().setUp()
        if not FULL:
            self.skipTest("takes --full")
        self.checkpoint = os.environ.get("MOE_WIDE_CHECKPOINT")
        if not self.checkpoint:
            self.skipTest("MOE_WIDE_CHECKPOINT names no checkpoint")

    def test_the_same_text_from_a_quarter_of_the_experts_as_from_all(self):
        model = artifact(Path(self.checkpoint), "--bits", "4")
        command = ("run", model, "-p", "The old man looked at", "-n", "16", "--temp", "0", "--ignore-eos")
        whole = self.expect(DONE, "moert", *command, "--memory", "100%").out
        self.assertEqual(self.expect(DONE, "moert", *command, "--memory", "25%").out, whole)
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        budget = cgroups.whole_pages(smallest_budget(*command))
        with cgroups.Group(budget) as group:
            cgroups.drop_page_cache()
            done = group.run([program("moert"), *map(str, command), "--memory", f"{budget}B"])
            self.assertEqual((done.returncode, group.times_at_limit(), group.oom_kills()), (DONE, 0, 0))
            self.assertEqual(done.stdout.decode(), whole)

    def test_a_checkpoint_compiles_in_a_container_far_smaller_than_it(self):
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        limit = 512 << 20
        weights = sum(path.stat().st_size for path in Path(self.checkpoint).glob("*.safetensors"))
        self.assertGreater(weights, 2 * limit, "the checkpoint is too small to prove anything")
        output = self.scratch / "contained.moe"
        with cgroups.Group(limit) as group:
            cgroups.drop_page_cache()
            done = group.run([program("moec"), "compile", self.checkpoint, "-o", str(output), "--bits", "4", "--no-calibration"])
            self.assertEqual((done.returncode, group.times_at_limit(), group.oom_kills()), (DONE, 0, 0))
        self.expect(DONE, "moec", "verify", output)
