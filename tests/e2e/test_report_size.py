"""moec report of large models: bounded memory, and a page of bounded size. Artifact and run are synthetic."""
import functools
import json
import os
import re
import subprocess

from support import BUILD, DONE, SCRATCH, E2eTest, program


@functools.cache
def synthetic(layers, experts, tokens):
    """An artifact without weights, and a profile of a run of it."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    model, run = SCRATCH / f"synthetic-{layers}x{experts}.moe", SCRATCH / f"synthetic-{layers}x{experts}.json"
    subprocess.run([BUILD / "tests/synthetic_run", *map(str, (layers, experts, tokens)), model, run], check=True)
    return model, run


class ReportSizeTest(E2eTest):
    def reported(self, layers, experts, tokens, *flags):
        """The page, the JSON and the largest resident memory of the command, in bytes."""
        model, run = synthetic(layers, experts, tokens)
        path, out = self.scratch / "report.html", self.scratch / "report.json"
        with open(out, "wb") as file:
            process = subprocess.Popen([program("moec"), "report", model, "--run", run, "-o", path, "--json", *flags], stdout=file)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, DONE)
        return path.read_text(), json.loads(out.read_text()), usage.ru_maxrss * 1024

    def test_400_layers_of_512_experts_take_at_most_500_mb(self):
        _, said, peak = self.reported(400, 512, 300)
        self.assertLessEqual(peak, 500_000_000)
        tables = {table["id"]: table for section in said["sections"] for table in section["tables"]}
        self.assertEqual(len(tables["experts.all"]["rows"]), 400 * 512)

    def test_a_page_of_48_layers_of_128_experts_and_2000_tokens_has_at_most_3_mb(self):
        page, said, _ = self.reported(48, 128, 2000)
        self.assertLessEqual(len(page.encode()), 3 << 20)
        tables = {table["id"]: table for section in said["sections"] for table in section["tables"]}
        self.assertRegex(tables["time.tokens"]["note"], r"Thinned: every \d+th of 2000 decode steps")
        self.assertIn(tables["time.tokens"]["note"], page)
        # Every cell of a heat map is there.
        self.assertEqual(len(re.findall("<tr>", re.search(r'data-table="experts.all">.*?</table>', page, re.S)[0])) - 1, 48 * 128)
