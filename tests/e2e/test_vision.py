"""The bundled vision model: names of classes, accuracy on folders of images, and a loss of accuracy that is promised and kept."""
import functools
import json
import sys

from support import DATA, DONE, SCRATCH, E2eTest, artifact, pocket, run, slow

sys.path.insert(0, str(DATA / "shapes-moe"))
import shapes  # noqa: E402

SHAPES = DATA / "shapes-moe"
SOURCE = ("--bits", "source", "--resident-bits", "source")
# Seeds of images that no model was trained on.
CALIBRATION, ACCEPTANCE, VALIDATION = 11, 12, 13


@functools.cache
def images(seed, count):
    folder = SCRATCH / f"shapes-{seed}-{count}"
    shapes.write(folder, count, seed)
    return folder


def source():
    return artifact(SHAPES, *SOURCE)


class VisionTest(E2eTest):
    def evaluated(self, *words):
        return json.loads(self.expect(DONE, "moert", "eval", *words, "--json", "--quiet").out)

    def compiled(self, calibration, acceptance, loss, *flags):
        path = self.scratch / "m.moe"
        done = self.expect(DONE, "moec", "compile", SHAPES, "-o", path, "--accuracy-loss", loss, "--metric", "accuracy", "--calibration-images",
                           calibration, "--eval-images", acceptance, "--acceptance-log", self.scratch / "log", *flags)
        return path, done

    def test_classes_have_their_names(self):
        folder = images(VALIDATION, 40)
        paths = sorted(folder.glob("*/*.ppm"))
        done = self.expect(DONE, "moert", "classify", source(), *paths, "--batch", "1", "--json", "--top", "1")
        best = [image["classes"][0] for image in json.loads(done.out)["images"]]
        self.assertEqual([each["name"] for each in best], [shapes.CLASSES[each["class"]] for each in best])
        right = sum(each["name"] == path.parent.name for each, path in zip(best, paths, strict=True))
        said = self.evaluated(source(), "--images", folder)
        self.assertEqual((said["metric"], said["value"]), ("accuracy", right / len(paths)))
        self.assertGreater(right, len(paths) * 0.7)
        text = self.expect(DONE, "moert", "classify", source(), paths[0], "--top", "1").out
        self.assertRegex(text, rf"%  {best[0]['name']}\n")

    def test_a_reference_loses_nothing_beside_itself(self):
        said = self.evaluated(source(), "--images", images(VALIDATION, 40), "--reference", source())
        self.assertEqual((said["loss"], said["kl"], said["top1"]), (0, 0, 1))

    def test_a_target_is_met_and_recorded(self):
        acceptance = images(ACCEPTANCE, 300)
        path, done = self.compiled(images(CALIBRATION, 160), acceptance, "5%", "--search-windows", "40", "--solver", "uniform")
        measured = json.loads(self.expect(DONE, "moec", "inspect", path, "--json").out)["measured"]
        self.assertEqual(measured["metric"], "accuracy")
        self.assertLessEqual(measured["upper_bound"], 0.05)
        self.assertRegex(done.err, "accuracy loss of at most 5.00% with 95% confidence")
        said = self.evaluated(path, "--images", acceptance)
        self.assertEqual(said["upper_bound"], measured["upper_bound"])
        beside = self.evaluated(path, "--images", acceptance, "--reference", source())
        self.assertEqual(beside["loss"], measured["loss"])

    def test_images_of_calibration_accept_nothing(self):
        done = run("moec", "compile", SHAPES, "-o", self.scratch / "m.moe", "--accuracy-loss", "5%", "--metric", "accuracy",
                   "--calibration-images", images(CALIBRATION, 160), "--eval-images", images(CALIBRATION, 180), "--acceptance-log",
                   self.scratch / "log")
        self.assertRegex(done.err, "has 20 images that calibration and search have not read")

    def test_copies_of_an_image_accept_nothing(self):
        folder = self.scratch / "copies"
        (folder / shapes.CLASSES[0]).mkdir(parents=True)
        one = sorted(images(ACCEPTANCE, 300).glob("*/*.ppm"))[0].read_bytes()
        for number in range(40):
            (folder / shapes.CLASSES[0] / f"{number}.ppm").write_bytes(one)
        done = run("moec", "compile", SHAPES, "-o", self.scratch / "m.moe", "--accuracy-loss", "5%", "--metric", "accuracy",
                   "--calibration-images", images(CALIBRATION, 160), "--eval-images", folder, "--acceptance-log", self.scratch / "log")
        self.assertEqual(done.status, 2)
        self.assertRegex(done.err, "1 images? that calibration and search have not read")

    def test_calibrated_widths_are_better_than_rounded_ones(self):
        calibrated, rounded = self.scratch / "c.moe", artifact(SHAPES, "--bits", "2", "--no-calibration")
        self.expect(DONE, "moec", "compile", SHAPES, "-o", calibrated, "--bits", "2", "--calibration-images", images(CALIBRATION, 160))
        folder = images(VALIDATION, 200)
        kl = [self.evaluated(path, "--images", folder, "--reference", source())["kl"] for path in (calibrated, rounded)]
        self.assertLess(kl[0], kl[1])
        again = self.scratch / "again.moe"
        self.expect(DONE, "moec", "compile", SHAPES, "-o", again, "--bits", "2", "--calibration-images", images(CALIBRATION, 160), "--threads", "1")
        self.assertEqual(calibrated.read_bytes(), again.read_bytes())

    def test_other_inputs_are_refused(self):
        folder, text, output = images(VALIDATION, 40), self.scratch / "text.txt", self.scratch / "m.moe"
        text.write_text("a text\n")
        for words, mention in (
                (("moert", "eval", source(), "--images", text), "expected one with a folder of images for each class"),
                (("moert", "eval", source(), "--images", folder, "--metric", "kl", "--reference", source()), "expected --metric accuracy"),
                (("moert", "eval", pocket(), "--text", text, "--metric", "accuracy"), "model of text, expected another metric"),
                (("moec", "compile", SHAPES, "-o", output, "--self-text", "90"), "vision model .swin_moe., expected --calibration-images"),
                (("moec", "compile", SHAPES, "-o", output, "--accuracy-loss", "2%", "--calibration-images", folder), "expected --metric accuracy"),
                (("moec", "compile", SHAPES, "-o", output, "--bits", "4", "--calibration-images", text), "folder of images")):
            with self.subTest(words=words[:2], mention=mention):
                self.refused(*words, mention=mention)
        self.assertFalse(output.exists())

    @slow
    def test_one_percent_is_kept_on_images_that_nobody_used(self):
        path, _ = self.compiled(images(CALIBRATION, 1000), images(ACCEPTANCE, 3000), "1%")
        said = self.evaluated(path, "--images", images(VALIDATION, 2000), "--reference", source())
        self.assertLessEqual(said["loss"], 0.01)
        self.assertLess(path.stat().st_size, artifact(SHAPES, "--bits", "8", "--no-calibration").stat().st_size)
