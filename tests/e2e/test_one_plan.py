"""One planner: compile, replan and moec-opt make the same plans from the same inputs, and these are the recorded ones."""
import json
import re

from support import DATA, DONE, POCKET, ROOT, E2eTest, slow

DEVICE = ROOT / "profiles/laptop-nvme.yaml"
BUDGETS = ("10%", "25%", "50%", "75%")
# Decisions and forecasts of an earlier build. After a change that is meant to change plans:
# tests/e2e/run one_plan, and copy the file that the failure names.
RECORDED = DATA / "plans/pocket-moe.json"


def without_transform_in_layer_0(text):
    """The module with formats of layer 0's experts, and rows for their inputs, that differ in the transform alone."""
    text = re.sub(r"#(\w+) = (#moe\.format<.*), hadamard = true>", r"\g<0>\n#plain_\1 = \2>", text)
    text = re.sub(r"!(\w+) = !moe\.row<hadamard, (.*)>", r"\g<0>\n!plain_\1 = !moe.row<quantized, \2>", text)
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.search(r"moe_layer @layer0\.|moe\.layer = 0 .*!hadamard", line):
            line = re.sub(r"#(\w+h)\b", r"#plain_\1", line)
            lines[i] = re.sub(r"!(hadamard\w+)", r"!plain_\1", line)
    return "\n".join(lines)


class OnePlanTest(E2eTest):
    def plans(self, path):
        return json.loads(self.expect(DONE, "moec", "inspect", path, "--json").out)["plans"]

    def compiled(self, *flags):
        output = self.scratch / "compiled.moe"
        self.expect(DONE, "moec", "compile", POCKET, "--bits", 4, "--memory", *BUDGETS, *flags, "-o", output)
        return output

    def replanned(self, model, *flags):
        output = self.scratch / "replanned.moe"
        self.expect(DONE, "moec", "replan", model, "--memory", *BUDGETS, *flags, "-o", output)
        return output

    def emitted(self, **options):
        """What moec emit writes of a module that moec-opt planned."""
        imported, planned, output = (self.scratch / name for name in ("m.mlir", "planned.mlir", "emitted.moe"))
        self.expect(DONE, "moec", "import", POCKET, "-o", imported)
        text = " ".join(f"{key}={value}" for key, value in options.items())
        self.expect(DONE, "moec-opt", imported, f"--moe-compile=bits=4 budgets={','.join(BUDGETS)} {text}", "-o", planned)
        self.expect(DONE, "moec", "emit", planned, "-o", output)
        return output

    def saved(self, *flags):
        """A compiled artifact and the module that it was written from."""
        module = self.scratch / "saved.mlir"
        return self.compiled(*flags, "--save-module", module), module

    def profiled(self):
        profile = self.scratch / "pocket.profile"
        self.expect(DONE, "moec", "calibrate", POCKET, "--calibration-text", DATA / "documents/validation.jsonl",
                    "--tokens", "2048", "-o", profile)
        return profile

    def check_recorded(self, name, plans):
        found = [{key: value for key, value in plan.items() if key not in ("reasons", "budget_bytes")} for plan in plans]
        recorded = json.loads(RECORDED.read_text())
        if recorded[name] != found:
            path = ROOT / "build/e2e" / RECORDED.name
            path.write_text(json.dumps({**recorded, name: found}, indent=1) + "\n")
            self.fail(f"plans differ from {RECORDED}; see {path}")

    def test_with_a_trace_and_a_device_all_search_for_the_same_plans(self):
        profile = self.profiled()
        model = self.compiled("--calibration", profile, "--device", DEVICE)
        plans = self.plans(model)
        self.assertTrue(all(plan["forecast"] for plan in plans))
        self.assertEqual(self.plans(self.replanned(model, "--device", DEVICE)), plans)
        # Experts that are quantized with a calibration have transformed inputs, which take more instructions.
        plain = self.plans(self.compiled("--calibration", profile, "--device", DEVICE, "--quantizer", "nearest"))
        self.assertEqual(self.plans(self.emitted(calibration=profile, device=DEVICE)), plain)
        self.check_recorded("searched", plans)

    @slow
    def test_emit_writes_the_bytes_of_the_compilation_that_saved_the_module(self):
        profile, output = self.profiled(), self.scratch / "emitted.moe"
        calibrated = ("--calibration", profile, "--device", DEVICE)
        for flags in ((), calibrated, (*calibrated, "--quantizer", "hqq"), (*calibrated, "--quantizer", "per-channel")):
            model, module = self.saved(*flags)
            self.expect(DONE, "moec", "emit", module, "-o", output)
            self.assertEqual(output.read_bytes(), model.read_bytes(), flags)
            self.assertEqual([path.name for path in self.scratch.glob("emitted*")], ["emitted.moe"])

    def test_emit_refuses_a_module_whose_experts_it_cannot_quantize(self):
        profile, output = self.profiled(), self.scratch / "emitted.moe"
        # Residents that are not quantized have no inputs with the transform.
        _, module = self.saved("--calibration", profile, "--resident-bits", "source")
        text = module.read_text()
        for before, after, mention in (
                ('calibration = "', 'calibration = "/nowhere/', "saved.mlir names a profile: .*nowhere.*No such file"),
                ("hadamard = true, nested = true", "hadamard = true", "slices of another form"),
                ("method = gptq", "method = gptp", "saved.mlir:"),
                ("nested = true, calibration = ", "calibration = \"\" //", "saved.mlir:"),
                ("moe.quantizer = #moe.quantizer<", "moe.quantizer = #moe.model<", "saved.mlir:")):
            self.assertIn(before, text)
            module.write_text(text.replace(before, after, 1))
            self.refused("moec", "emit", module, "-o", output, mention=mention)
            self.assertEqual(list(self.scratch.glob("emitted*")), [])
        module.write_text(without_transform_in_layer_0(text))
        self.refused("moec", "emit", module, "-o", output, mention="saved.mlir: found experts with and without the Hadamard transform")
        self.assertEqual(list(self.scratch.glob("emitted*")), [])
        module.write_text(text)
        self.refused("moec", "emit", module, "-o", profile, mention="would replace")

    def test_emit_refuses_a_quantizer_without_experts(self):
        _, module = self.saved("--calibration", self.profiled())
        text = re.sub(r"  moe\.program @\w+ \{.*?\n  \}\n|  moe\.moe_layer .*?\n", "", module.read_text(), flags=re.DOTALL)
        module.write_text(re.sub(r"quotaPages = \[[^]]*\]", "quotaPages = []", text))
        self.refused("moec", "emit", module, "-o", self.scratch / "emitted.moe", mention="gptq in a module without MoE layers")

    def test_without_them_all_follow_the_same_rules(self):
        for flags in ((), ("--device", DEVICE)):
            model = self.compiled(*flags)
            plans = self.plans(model)
            self.assertEqual(self.plans(self.replanned(model, *flags)), plans)
            emitted = self.emitted(**({"device": DEVICE} if flags else {}))
            self.assertEqual(emitted.read_bytes(), model.read_bytes())
            self.check_recorded("rules", plans)

    def test_prefetches_of_a_preset_are_decided_by_the_device(self):
        for flags, options in (((), {}), (("--device", DEVICE), {"device": DEVICE})):
            model = self.compiled("--preset", "fate", *flags)
            self.assertEqual(self.emitted(presets="fate", **options).read_bytes(), model.read_bytes())
            self.check_recorded("fate on the device" if flags else "fate", self.plans(model))
