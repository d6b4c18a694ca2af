"""Vision models: the logits and routes are the reference's, whatever computes them; images of all kinds are classified or refused."""
import base64
import json
import struct
import zlib

from support import DATA, DONE, E2eTest, artifact, copied, pocket, read_safetensors

LOGITS_TOLERANCE = 1e-4  # relative to the largest logit, as in test_golden.py
IMAGE_TOLERANCE = 1e-3  # the same for an image that another program resized
SOURCE = ("--bits", "source", "--resident-bits", "source")
CASES = ("swin_moe", "swin_moe_cosine")
JPEG = base64.b64decode(  # grey, 20 x 16
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//"
    "wAALCAAQABQBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEI"
    "I0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ip"
    "qrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/AOOtdP6fLWza6f0+WtWPT/kHy0lrp/T5a2LXT+ny1qx6"
    "f8g+Wv/Z")


def model(case, *flags):
    return artifact(DATA / "golden" / case, *(flags or SOURCE))


def golden_of(case):
    return read_safetensors(DATA / "golden" / case / "golden/golden.safetensors")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits=8, color=2, rows=None):
    """color: 0 grey, 2 RGB, 4 grey with alpha, 6 RGB with alpha."""
    step = {0: 1, 2: 3, 4: 2, 6: 4}[color] * bits // 8
    rows = rows or [bytes((x * 7 + y * 13) % 256 for x in range(width * step)) for y in range(height)]
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) +
            chunk(b"IEND", b""))


class ClassifyTest(E2eTest):
    def write(self, name, data):
        path = self.scratch / name
        path.write_bytes(data)
        return path

    def write_pixels(self, tensor, first=0, count=None):
        count = tensor.shape[0] - first if count is None else count
        each = len(tensor.values) // tensor.shape[0]
        data = tensor.values[first * each:(first + count) * each].tobytes()
        header = json.dumps({"pixels": {"dtype": "F32", "shape": [count, *tensor.shape[1:]], "data_offsets": [0, len(data)]}}).encode()
        return self.write("pixels.safetensors", struct.pack("<Q", len(header)) + header + data)

    def computed(self, path, pixels, *options):
        output = self.scratch / "logits.safetensors"
        self.expect(DONE, "moert", "classify", path, "--pixels", pixels, "--logits", output, "--quiet", *options)
        return output

    def same_logits(self, got, expected, tolerance=LOGITS_TOLERANCE):
        self.assertEqual(got.shape, expected.shape)
        error = max(abs(a - b) for a, b in zip(got.values, expected.values, strict=True))
        self.assertLessEqual(error, tolerance * max(map(abs, expected.values)))

    def same_routes(self, got, golden, prefix):
        layers = sorted(name for name in golden if name.startswith(prefix + "experts."))
        self.assertTrue(layers)
        for number, name in enumerate(layers):
            self.assertEqual(got[f"experts.{number}"], golden[name], name)
        dropped = [got[f"experts.{number}"].values.count(-1) for number in range(len(layers))]
        self.assertEqual(dropped, list(golden[prefix + "dropped"].values))

    def test_logits_and_routes_are_the_references(self):
        for case in CASES:
            with self.subTest(case=case):
                golden = golden_of(case)
                got = read_safetensors(self.computed(model(case), self.write_pixels(golden["images"])))
                self.same_logits(got["logits"], golden["logits"])
                self.same_routes(got, golden, "")
                self.assertGreater(sum(golden["dropped"].values), 0)

    def test_one_image_alone_drops_other_tokens(self):
        for case in CASES:
            with self.subTest(case=case):
                golden = golden_of(case)
                got = read_safetensors(self.computed(model(case), self.write_pixels(golden["images"], 0, 1)))
                self.same_logits(got["logits"], golden["single_logits"])
                self.same_routes(got, golden, "single_")

    def test_a_batch_of_one_is_an_image_alone(self):
        golden = golden_of("swin_moe")
        got = read_safetensors(self.computed(model("swin_moe"), self.write_pixels(golden["images"]), "--batch", "1"))
        classes = golden["single_logits"].shape[1]
        self.same_logits(got["logits"]._replace(shape=[1, classes], values=got["logits"].values[:classes]), golden["single_logits"])

    def test_an_image_file_is_prepared_as_the_reference_does(self):
        output = self.scratch / "logits.safetensors"
        image = DATA / "golden/swin_moe/golden/image.png"
        self.expect(DONE, "moert", "classify", model("swin_moe"), image, "--logits", output)
        self.same_logits(read_safetensors(output)["logits"], golden_of("swin_moe")["image_logits"], IMAGE_TOLERANCE)

    def test_every_budget_thread_count_and_instruction_set_gives_the_same_bytes(self):
        for case, flags in (("swin_moe", SOURCE), ("swin_moe_cosine", ("--bits", "4", "--no-calibration"))):
            path, pixels = model(case, *flags), self.write_pixels(golden_of(case)["images"])
            whole = self.computed(path, pixels).read_bytes()
            for options in (("--memory", "25%"), ("--threads", "1"), ("--threads", "3"), ("--isa", "reference"),
                            ("--memory", "25%", "--threads", "2", "--io", "buffered")):
                with self.subTest(case=case, options=options):
                    self.assertEqual(self.computed(path, pixels, *options).read_bytes(), whole)

    def test_fewer_bits_keep_most_of_the_logits(self):
        golden = golden_of("swin_moe")
        for bits in ("8", "4"):
            path = model("swin_moe", "--bits", bits, "--no-calibration")
            got = read_safetensors(self.computed(path, self.write_pixels(golden["images"])))["logits"]
            self.same_logits(got, golden["logits"], 0.5)

    def test_a_saved_module_of_a_vision_model_gives_the_same_artifact(self):
        whole, module, emitted = (self.scratch / name for name in ("m.moe", "m.mlir", "e.moe"))
        self.expect(DONE, "moec", "compile", DATA / "golden/swin_moe", "-o", whole, "--bits", "8", "--no-calibration", "--save-module", module)
        self.expect(DONE, "moec", "emit", module, "-o", emitted)
        self.assertEqual(whole.read_bytes(), emitted.read_bytes())

    def test_images_are_listed_with_their_best_classes(self):
        image = DATA / "golden/swin_moe/golden/image.png"
        done = self.expect(DONE, "moert", "classify", model("swin_moe"), image, image, "--top", "2", "--json")
        said = json.loads(done.out)
        self.assertEqual([each["image"] for each in said["images"]], [str(image)] * 2)
        logits = golden_of("swin_moe")["image_logits"].values
        best = max(range(len(logits)), key=logits.__getitem__)
        alone = json.loads(self.expect(DONE, "moert", "classify", model("swin_moe"), image, "--top", "2", "--json").out)
        self.assertEqual(alone["images"][0]["classes"][0]["class"], best)
        self.assertEqual(len(alone["images"][0]["classes"]), 2)
        self.assertGreater(said["images_per_second"], 0)
        text = self.expect(DONE, "moert", "classify", model("swin_moe"), image, "--top", "3")
        self.assertRegex(text.out, rf"image.png\n +[0-9.]+%  class {best}\n")
        self.assertRegex(text.err, "images/s")

    def test_images_of_every_kind_are_computed(self):
        rgb = png(80, 100)
        kinds = {"grey": png(70, 90, color=0), "grey16": png(70, 90, bits=16, color=0), "rgb16": png(70, 90, bits=16),
                 "alpha": png(90, 70, color=6), "grey_alpha": png(90, 70, color=4), "rgb": rgb, "jpeg": JPEG, "small": png(1, 1),
                 "ppm": b"P6\n3 2\n255\n" + bytes(range(18)), "pgm": b"P5\n3 2\n255\n" + bytes(range(6))}
        paths = [self.write(name, data) for name, data in kinds.items()]
        done = self.expect(DONE, "moert", "classify", model("swin_moe"), *paths, "--json")
        self.assertEqual(len(json.loads(done.out)["images"]), len(kinds))

    def test_broken_images_are_refused(self):
        whole = png(80, 100)
        huge = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
        broken = {"empty": b"", "text": b"not an image", "cut": whole[:len(whole) // 2], "header": whole[:20], "gif": b"GIF89a" + bytes(40),
                  "jpeg": b"\xff\xd8\xff\xe0" + bytes(30), "ppm": b"P6\n99999999999 2\n255\n", "cut_ppm": b"P6\n300 200\n255\n123",
                  "cut_jpeg": JPEG[:-20], "huge": huge, "thin": png(300, 1)}
        for name, data in broken.items():
            with self.subTest(name=name):
                self.refused("moert", "classify", model("swin_moe"), self.write(name, data), mention=name)
        self.refused("moert", "classify", model("swin_moe"), self.scratch / "absent.png", mention="absent.png")

    def test_other_pixels_are_refused(self):
        golden = golden_of("swin_moe_cosine")
        self.refused("moert", "classify", model("swin_moe"), "--pixels", self.write_pixels(golden["images"]), mention=r"\[N,3,64,64\]")
        for name, data in {"none": b"", "short": b"\1", "long": struct.pack("<Q", 1 << 60), "text": struct.pack("<Q", 2) + b"[]",
                           "other": struct.pack("<Q", 2) + b"{}"}.items():
            with self.subTest(name=name):
                self.refused("moert", "classify", model("swin_moe"), "--pixels", self.write(name, data), mention=name)

    def test_models_of_the_other_kind_are_refused_by_name(self):
        vision, image = model("swin_moe"), DATA / "golden/swin_moe/golden/image.png"
        self.refused("moert", "classify", pocket(), image, mention="model of text .*moert run")
        self.refused("moert", "classify", vision, mention="image")
        text = self.write("text.txt", b"a text\n")
        for words in (("run", vision, "-p", "a"), ("chat", vision), ("bench", vision),
                      ("serve", vision), ("logits", vision, "--ids", text, "-o", self.scratch / "out")):
            with self.subTest(command=words[0]):
                self.refused("moert", *words, mention="vision model .swin_moe.*moert classify")

    def test_a_broken_artifact_is_refused(self):
        path = copied(model("swin_moe"), self.scratch)
        data = bytearray(path.read_bytes())
        data[5000] ^= 1
        path.write_bytes(data)
        self.refused("moert", "classify", path, DATA / "golden/swin_moe/golden/image.png")
