"""moec import and emit of an artifact: the module that is read from it writes the same bytes, and an edited one is refused by name."""
import re

from support import DATA, DONE, POCKET, ROOT, E2eTest, artifact, calibrated_pocket, pocket

DEVICE = ROOT / "profiles/laptop-nvme.yaml"
SOURCE = ("--bits", "source", "--resident-bits", "source")


def golden():
    return sorted(path.parent for path in (DATA / "golden").glob("*/config.json"))


class ImportTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.module, self.output = self.scratch / "m.mlir", self.scratch / "emitted.moe"

    def imported(self, path):
        self.expect(DONE, "moec", "import", path, "-o", self.module)
        return self.module.read_text()

    def check_written_again(self, path):
        self.imported(path)
        self.expect(DONE, "moec", "emit", self.module, "-o", self.output)
        self.assertEqual(self.output.read_bytes(), path.read_bytes())

    def refuses(self, text, mention):
        self.module.write_text(text)
        self.refused("moec", "emit", self.module, "-o", self.output, mention=mention)
        self.assertEqual(sorted(path.name for path in self.scratch.glob("emitted*")), [])

    def test_each_family_is_written_again(self):
        self.assertGreater(len(golden()), 40)
        for case in golden():
            with self.subTest(case.name):
                self.check_written_again(artifact(case, *SOURCE))

    def test_widths_plans_and_what_calibration_learned_are_written_again(self):
        profile, planned = calibrated_pocket(self.scratch), self.scratch / "planned.moe"
        calibrated = ("--calibration", profile, "--memory", "25%", "50%", "--device", DEVICE)
        for flags in ((), calibrated):
            with self.subTest(flags):
                self.expect(DONE, "moec", "compile", POCKET, "--bits", 4, *flags, "-o", planned)
                self.check_written_again(planned)
        for flags in (("--bits", "8", "--low-copy", "4"), ("--bits", "2", "--down-bits", "4")):
            with self.subTest(flags):
                self.check_written_again(artifact(POCKET, *flags, "--no-calibration"))

    def test_the_module_holds_no_weights(self):
        self.assertLess(len(self.imported(pocket("4"))), pocket("4").stat().st_size / 20)

    def test_a_module_that_no_longer_fits_is_refused(self):
        text = self.imported(pocket("4"))
        weights = re.search(r"weights = (\d+)", text)[1]
        tensor = re.search(r"moe\.weight @\S+ vector from <tensor = (\"[^\"]+\")", text)[1]
        for before, after, mention in (
                (f"weights = {weights}", "weights = 1", "found weights of checksum .*, expected 0+1"),
                ('path = "', 'path = "/nowhere', "m.mlir names an artifact: .*/nowhere"),
                ("quotaPages = [", "quotaPages = [9, ", r"m.mlir:\d+:\d+: plan .* has quotas for 11 MoE layers, expected 10"),
                (tensor, '"other"', "another name, shape or format of the resident weight other, expected those of .*moe"),
                (" layer 0 silu", " layer 7 silu", "other experts, matrices or formats in layer 7"),
                ("moe.artifact = #moe.artifact<", "moe.artifact = #moe.model<", "m.mlir:")):
            with self.subTest(after):
                self.assertIn(before, text)
                self.refuses(text.replace(before, after, 1), mention)

    def test_an_artifact_that_has_changed_is_refused(self):
        content, copy = bytearray(pocket("4").read_bytes()), self.scratch / "copy.moe"
        copy.write_bytes(content)
        text = self.imported(copy)
        content[8192] ^= 1
        copy.write_bytes(content)
        self.refuses(text, "copy.moe: the section of resident weights has checksum")
        copy.write_bytes(pocket("8").read_bytes())
        self.refuses(text, "copy.moe: found weights of checksum")
        copy.write_bytes(content[:5000])
        self.refuses(text, "m.mlir names an artifact: .*copy.moe")
        copy.write_bytes(b"")
        self.refused("moec", "import", copy, "-o", self.module, mention="copy.moe")

    def test_neither_file_is_replaced(self):
        copy = self.scratch / "copy.moe"
        copy.write_bytes(pocket("4").read_bytes())
        self.refused("moec", "import", copy, "-o", copy, mention="would replace")
        self.imported(copy)
        for path in (copy, self.module):
            self.refused("moec", "emit", self.module, "-o", path, mention="would replace")

    def test_passes_plan_it_and_leave_its_weights(self):
        self.imported(pocket("4"))
        planned = self.scratch / "planned.mlir"
        self.expect(DONE, "moec-opt", self.module, "--moe-make-plans=budgets=25%,50%", "--moe-check-budgets", "-o", planned)
        self.expect(DONE, "moec", "emit", planned, "-o", self.output)
        replanned = self.scratch / "replanned.moe"
        self.expect(DONE, "moec", "replan", pocket("4"), "--memory", "25%", "50%", "-o", replanned)
        self.assertEqual(self.output.read_bytes(), replanned.read_bytes())
        done = self.expect(1, "moec-opt", self.module, "--moe-assign-bits")
        self.assertIn("the weights of an artifact have their formats", done.err)
