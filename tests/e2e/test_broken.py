"""A broken artifact is refused by name, or the damage is found where it lies; never a crash, never a wrong token."""
from support import DONE, FAILED, REFUSED, E2eTest, copied, pocket, run, sizes


def patch(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


class BrokenArtifactTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.model = pocket("4")
        self.bytes = self.model.stat().st_size

    def both_refuse(self, path, mention):
        for arguments in (("moec", "verify", path), ("moec", "inspect", path),
                          ("moert", "run", path, "-p", "The", "-n", "4")):
            with self.subTest(program=arguments[:2]):
                self.refused(*arguments, mention=mention)

    def test_a_whole_artifact_passes(self):
        self.expect(DONE, "moec", "verify", self.model)

    def test_a_truncated_file_is_refused_at_every_length(self):
        for kept in (0, 1, 7, 63, 4095, 4096, self.bytes // 3, self.bytes - 4096, self.bytes - 1):
            with self.subTest(kept=kept):
                path = self.scratch / "cut.moe"
                path.write_bytes(self.model.read_bytes()[:kept])
                self.both_refuse(path, "cut.moe")

    def test_bytes_after_the_end_are_refused(self):
        path = copied(self.model, self.scratch)
        with open(path, "ab") as file:
            file.write(b"more")
        self.both_refuse(path, "copy.moe")

    def test_another_magic_is_refused(self):
        path = copied(self.model, self.scratch)
        patch(path, 0, b"GGUF")
        self.both_refuse(path, "copy.moe")

    def test_a_flipped_bit_of_the_first_bytes_is_refused_or_harmless(self):
        reference = self.expect(DONE, "moert", "run", self.model, "-p", "The", "-n", 4, "--temp", 0).out
        for offset in range(0, 256, 3):
            with self.subTest(offset=offset):
                path = copied(self.model, self.scratch)
                flip(path, offset)
                done = run("moert", "run", path, "-p", "The", "-n", 4, "--temp", 0)
                if done.status == DONE:  # A byte without meaning, such as padding.
                    self.assertEqual(done.out, reference)
                else:
                    self.assertIn(done.status, (FAILED, REFUSED), done.err)
                    self.assertIn("copy.moe", done.err)

    def test_a_damaged_expert_is_named_by_layer_and_expert(self):
        layers = sizes(self.model)["experts"]
        for layer, expert in ((0, 0), (0, 31), (4, 7), (9, 31)):
            record = next(e for e in layers if e["layer"] == layer and e["expert"] == expert)
            self.assertEqual(len(record["slices"]), 2)  # Of 2 and 2 bits.
            for number, part in enumerate(record["slices"]):
                path = copied(self.model, self.scratch)
                flip(path, record["file_offset"] + part["offset"] + 100)
                name = rf"(?i)layer {layer}\b.*expert {expert}\b.*slice {number}\b"
                with self.subTest(layer=layer, expert=expert, slice=number):
                    found = run("moec", "verify", path)
                    self.assertIn(found.status, (FAILED, REFUSED))
                    self.assertRegex(found.out + found.err, name)

    def test_a_run_that_reads_a_damaged_expert_fails_and_names_it(self):
        path = copied(self.model, self.scratch)
        for record in sizes(self.model)["experts"]:
            if record["layer"] == 3:
                # The refining slice: the first one is whole.
                flip(path, record["file_offset"] + record["slices"][1]["offset"] + 1)
        prompt = ("-p", "The old man", "-n", 4)
        for backend in ("uring", "threads", "buffered"):
            with self.subTest(io=backend):
                whole = run("moert", "run", self.model, *prompt, "--io", backend)
                if whole.status == REFUSED and f"--io {backend} does not work here" in whole.err:
                    print(f"not on this machine: {whole.err.strip()}", end=" ... ", flush=True)
                    continue
                done = run("moert", "run", path, *prompt, "--io", backend)
                self.assertIn(done.status, (FAILED, REFUSED), done.err)
                self.assertRegex(done.err, r"(?i)layer 3\b.*expert \d+")
                self.assertEqual(done.out.strip(), "")

    def test_damaged_resident_weights_are_refused(self):
        section = next(s for s in sizes(self.model)["sections"] if s["name"] == "resident")
        path = copied(self.model, self.scratch)
        flip(path, section["offset"] + section["bytes"] // 2)
        for arguments in (("moec", "verify", path), ("moert", "run", path, "-p", "The", "-n", "4")):
            done = run(*arguments)
            self.assertIn(done.status, (FAILED, REFUSED))
            self.assertRegex(done.err, "resident")
