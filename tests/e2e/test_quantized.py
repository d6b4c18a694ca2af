"""Quantized checkpoints: compiled as their values, whatever they are stored as, and refused by name where they are broken."""
import bisect
import json
import struct

from support import DATA, DONE, E2eTest, sizes
from test_checkpoints import change, read_shard, write_shard

GOLDEN = DATA / "golden" / "mixtral"
SOURCE = ("--bits", "source", "--resident-bits", "source")
BLOCK = (40, 48)  # Neither divides the matrices' 64 and 96.
# The magnitudes of E4M3 by their codes.
MAGNITUDES = [(8 * (code >= 8) + code % 8) * 2.0 ** (max(code >> 3, 1) - 10) for code in range(0x7f)]


def bf16_values(data):
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def code_of(value):
    """The E4M3 code below a value."""
    return bisect.bisect_right(MAGNITUDES, abs(value)) - 1 | (0x80 if value < 0 else 0)


def as_fp8(data, shape):
    """A BF16 matrix as FP8 codes, scales per block, and the F32 values that they stand for."""
    rows, cols = shape
    values = bf16_values(data)
    across = -(-cols // BLOCK[1])
    place = [(i // cols // BLOCK[0]) * across + i % cols // BLOCK[1] for i in range(rows * cols)]
    largest = [0.0] * (-(-rows // BLOCK[0]) * across)
    for block, value in zip(place, values):
        largest[block] = max(largest[block], abs(value))
    scales = struct.pack(f"<{len(largest)}f", *(each / 448 for each in largest))
    exact = struct.unpack(f"<{len(largest)}f", scales)
    codes = bytes(code_of(value / exact[block]) for block, value in zip(place, values))
    signed = [-MAGNITUDES[code & 0x7f] if code & 0x80 else MAGNITUDES[code] for code in codes]
    # The product of 4 and 24 bits is exact in double precision, so that it is rounded once.
    decoded = struct.pack(f"<{len(values)}f", *(value * exact[block] for block, value in zip(place, signed)))
    return codes, (scales, [len(largest) // across, across]), decoded


class QuantizedTest(E2eTest):
    def write(self, name, tensors, quantization=None):
        folder = self.scratch / name
        folder.mkdir()
        config = json.loads((GOLDEN / "config.json").read_text())
        if quantization:
            config["quantization_config"] = quantization
        (folder / "config.json").write_text(json.dumps(config))
        header, data = {}, b""
        for tensor, (dtype, shape, content) in tensors.items():
            header[tensor] = dict(dtype=dtype, shape=shape, data_offsets=[len(data), len(data) + len(content)])
            data += content
        write_shard(folder / "model.safetensors", header, data)
        return folder

    def fp8_and_its_values(self):
        coded, plain = {}, {}
        for path in sorted(GOLDEN.glob("*.safetensors")):
            header, data = read_shard(path)
            header.pop("__metadata__", None)
            for name, entry in header.items():
                content = data[slice(*entry["data_offsets"])]
                if ".experts." not in name:
                    coded[name] = plain[name] = (entry["dtype"], entry["shape"], content)
                    continue
                codes, (scales, blocks), values = as_fp8(content, entry["shape"])
                coded[name] = ("F8_E4M3", entry["shape"], codes)
                coded[name + "_scale_inv"] = ("F32", blocks, scales)
                plain[name] = ("F32", entry["shape"], values)
        quantization = dict(quant_method="fp8", fmt="e4m3", weight_block_size=BLOCK,
                            modules_to_not_convert=["gate", "lm_head"])
        return self.write("fp8", coded, quantization), self.write("values", plain)

    def compile(self, folder, *flags):
        output = self.scratch / f"{folder.name}.moe"
        self.expect(DONE, "moec", "compile", folder, "-o", output, *flags)
        return output

    def records(self, artifact):
        content = artifact.read_bytes()
        return [content[each["file_offset"]:each["file_offset"] + each["bytes"]] for each in sizes(artifact)["experts"]]

    def test_experts_in_fp8_are_compiled_as_their_values(self):
        fp8, values = self.fp8_and_its_values()
        for flags in (SOURCE, ("--bits", "4")):
            with self.subTest(flags=flags):
                first, second = self.compile(fp8, *flags), self.compile(values, *flags)
                self.assertEqual(len(self.records(first)), 16)
                self.assertEqual(self.records(first), self.records(second))
                ids = [self.expect(DONE, "moert", "run", each, "--ids", self.write_ids((5, 9, 17, 200)), "-n", 8,
                                   "--ignore-eos", "--json").out for each in (first, second)]
                self.assertEqual(json.loads(ids[0])["ids"], json.loads(ids[1])["ids"])

    def test_inspect_names_the_types_of_weights(self):
        fp8, values = self.fp8_and_its_values()
        page = self.expect(DONE, "moec", "inspect", fp8).out
        self.assertRegex(page, r"quantization: fp8, blocks of 40 x 48")
        self.assertRegex(page, r"F8_E4M3, scales F32 +48 +294912 ")
        found = json.loads(self.expect(DONE, "moec", "inspect", values, "--json").out)
        self.assertEqual(found["quantization"], "")
        self.assertEqual({each["type"] for each in found["weights"]}, {"BF16", "F32"})

    def test_broken_ones_are_refused_by_file_found_and_expected(self):
        fp8, _ = self.fp8_and_its_values()
        shard, config = fp8 / "model.safetensors", fp8 / "config.json"
        whole, written = shard.read_bytes(), config.read_text()
        header, data = read_shard(shard)
        scale = "model.layers.1.block_sparse_moe.experts.3.w1.weight_scale_inv"

        def rename(found):
            found[scale.replace("_inv", "_lost")] = found.pop(scale)

        def retype(found):
            found[scale].update(dtype="I32")

        def reshape(found):
            found[scale]["shape"].reverse()

        for edit, mention in ((rename, "found no tensor.*w1.weight_scale_inv.*expected its scales"),
                              (retype, "w1.weight_scale_inv.*found dtype I32, expected F32"),
                              (reshape, r"w1.weight_scale_inv.*found shape \[2, 3\], expected \[3, 2\]")):
            with self.subTest(edit=edit.__name__):
                broken = json.loads(json.dumps(header))
                edit(broken)
                write_shard(shard, broken, data)
                self.compile_refused(fp8, f"model.safetensors.*{mention}")
        with self.subTest("a scale that is NaN"):
            begin = header[scale]["data_offsets"][0]
            write_shard(shard, header, data[:begin] + struct.pack("<f", float("nan")) + data[begin + 4:])
            self.compile_refused(fp8, "model.safetensors.*w1.weight_scale_inv.*scale NaN.*expected a finite number")
        shard.write_bytes(whole)
        for key, value, mention in (("quant_method", "bitnet", 'found "bitnet", expected one of auto-round, awq'),
                                    ("weight_block_size", [128, 128], r"found shape \[3, 2\], expected \[1, 1\]"),
                                    ("weight_block_size", [128], "expected two numbers"),
                                    ("fmt", "e5m2", 'found "e5m2", expected "e4m3"')):
            with self.subTest(key=key, value=value):
                config.write_text(written)
                change(config, lambda content, key=key, value=value: content["quantization_config"].update({key: value}))
                self.compile_refused(fp8, mention)

    def compile_refused(self, folder, mention):
        output = self.scratch / "refused.moe"
        self.refused("moec", "compile", folder, "-o", output, *SOURCE, mention=mention)
        self.assertFalse(output.exists())


MXFP4 = DATA / "golden" / "gpt_oss"
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-value for value in E2M1]


def bf16_of_mxfp4(blocks, scales):
    """The values of [E, outputs, groups, 16] codes and [E, outputs, groups] scales as BF16, in the same order."""
    words = {scale: [struct.pack("<f", value * 2.0 ** (scale - 127))[2:] for value in E2M1] for scale in set(scales)}
    return b"".join(words[scale][byte & 15] + words[scale][byte >> 4]
                    for i, scale in enumerate(scales) for byte in blocks[16 * i:16 * i + 16])


def swapped(data, shape):
    """[E, rows, cols] of two bytes as [E, cols, rows]."""
    count, rows, cols = shape
    items = [data[i:i + 2] for i in range(0, len(data), 2)]
    return b"".join(items[(e * rows + row) * cols + col] for e in range(count) for col in range(cols) for row in range(rows))


class Mxfp4Test(E2eTest):
    """Experts in MXFP4 are kept by --bits source: at the published size, and with the bits of their values in BF16."""

    def write(self, name, quantized):
        folder = self.scratch / name
        folder.mkdir()
        config = json.loads((MXFP4 / "config.json").read_text())
        if not quantized:
            del config["quantization_config"]
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def as_bf16(self):
        """The checkpoint with its experts as the BF16 tensors that they stand for."""
        folder = self.write("bf16", False)
        stored, data = read_shard(MXFP4 / "model.safetensors")
        stored.pop("__metadata__", None)
        tensors = {name: (entry, data[slice(*entry["data_offsets"])]) for name, entry in stored.items()}
        header, out = {}, b""
        for name, (entry, content) in tensors.items():
            if name.endswith("_scales"):
                continue
            dtype, shape = entry["dtype"], entry["shape"]
            if name.endswith("_blocks"):
                name = name.removesuffix("_blocks")
                experts, outputs, groups, _ = shape
                values = bf16_of_mxfp4(content, tensors[name + "_scales"][1])
                content = swapped(values, (experts, outputs, 32 * groups))
                dtype, shape = "BF16", [experts, 32 * groups, outputs]
            header[name] = dict(dtype=dtype, shape=shape, data_offsets=[len(out), len(out) + len(content)])
            out += content
        write_shard(folder / "model.safetensors", header, out)
        return folder

    def compile(self, folder, *flags):
        output = self.scratch / f"{folder.name}-{len(list(self.scratch.iterdir()))}.moe"
        self.expect(DONE, "moec", "compile", folder, "-o", output, *(flags or SOURCE))
        return output

    def logits(self, path, *options):
        output = self.scratch / "logits.safetensors"
        self.expect(DONE, "moert", "logits", path, "--ids", self.write_ids(range(3, 60)), "-o", output, *options)
        return output.read_bytes()

    def test_the_bits_are_those_of_bf16_records_at_the_published_size(self):
        four, wide = self.compile(MXFP4), self.compile(self.as_bf16())
        said, of_wide = sizes(four), sizes(wide)
        self.assertEqual({expert["slices"][0]["kind"] for expert in of_wide["experts"]}, {"bf16"})
        for expert in said["experts"]:
            # 64 x 64 weights: 2048 bytes of codes and 128 of scales per matrix, padded to a multiple of 1024.
            self.assertEqual((expert["bits"], len(expert["slices"])), (4, 1))
            self.assertEqual((expert["slices"][0]["kind"], expert["slices"][0]["group"]), ("mxfp4", 32))
            self.assertEqual(expert["slices"][0]["payload_bytes"], 2 * 3072 + 2048 + 128)
        self.assertLess(said["expert_payload_bytes"], 0.4 * of_wide["expert_payload_bytes"])
        for options in ((), ("--isa", "reference"), ("--prefill-chunk", "1"), ("--memory", "25%", "--threads", "1")):
            with self.subTest(options=options):
                self.assertEqual(self.logits(four, *options), self.logits(wide, *options))
        self.expect(DONE, "moec", "verify", four)

    def test_narrower_widths_are_quantized_from_the_exact_values(self):
        wide = self.as_bf16()
        for bits in ("8", "2"):
            with self.subTest(bits=bits):
                self.assertEqual(*(self.logits(self.compile(folder, "--bits", bits)) for folder in (MXFP4, wide)))

    def test_codes_and_scales_are_those_of_the_checkpoint(self):
        path = self.compile(MXFP4)
        content = path.read_bytes()
        header, data = read_shard(MXFP4 / "model.safetensors")
        for expert in sizes(path)["experts"][::7]:
            prefix = f"model.layers.{expert['layer']}.mlp.experts.gate_up_proj"
            blocks, scales = (data[slice(*header[f"{prefix}_{part}"]["data_offsets"])] for part in ("blocks", "scales"))
            # Row r of up is row 2r + 1 of the interleaved tensor [12, 128, 2, 16].
            for row, at in ((5, 5 * 4), (21, 64 // 2 * 16 + 5 * 4)):
                stored = (expert["expert"] * 128 + 2 * row + 1) * 2
                up = expert["file_offset"] + 3072 + at
                units = b"".join(content[up + 64 * i:up + 64 * i + 4] for i in range(8))
                self.assertEqual(units, blocks[16 * stored:16 * stored + 32])
                scale = expert["file_offset"] + 3072 + 2048 + row // 16 * 32 + row % 16
                self.assertEqual(content[scale:scale + 32:16], scales[stored:stored + 2])

    def test_a_module_that_is_saved_is_emitted_to_the_same_bytes(self):
        module, out = self.scratch / "m.mlir", self.scratch / "emitted.moe"
        path = self.compile(MXFP4, *SOURCE, "--save-module", str(module))
        self.assertIn("#moe.format<kind = mxfp4, group = 32>", module.read_text())
        self.expect(DONE, "moec", "emit", module, "-o", out)
        self.assertEqual(out.read_bytes(), path.read_bytes())

    def test_a_module_whose_checkpoint_is_no_longer_mxfp4_is_refused(self):
        folder, module = self.as_bf16(), self.scratch / "m.mlir"
        self.compile(MXFP4, *SOURCE, "--save-module", str(module))
        module.write_text(module.read_text().replace(str(MXFP4), str(folder)))
        self.refused("moec", "emit", module, "-o", self.scratch / "none.moe",
                     mention="gate_up_proj: found BF16, expected mxfp4, as the experts' format says")
        self.assertFalse((self.scratch / "none.moe").exists())

    def test_plans_count_the_bytes_of_the_stored_format(self):
        path, planned = self.compile(MXFP4), self.scratch / "planned.moe"
        config = self.write("config", True)
        said = json.loads(self.expect(DONE, "moec", "plan", config, "--memory", "25%", "--json").out)["widths"]
        self.assertEqual([(width["option"], width["bits"]) for width in said],
                         [("8", 8), ("6", 6), ("5", 5), ("source", 4.25), ("4", 4), ("3", 3), ("2", 2)])
        self.assertEqual(said[3]["expert_bytes"], sizes(path)["expert_payload_bytes"])
        self.assertRegex(self.expect(DONE, "moec", "plan", config, "--memory", "25%").out, r"\n +source +\d")
        self.expect(DONE, "moec", "replan", path, "--memory", "50%", "-o", planned)
        self.assertEqual(self.logits(planned), self.logits(path))

    def test_a_scale_that_is_nan_and_a_value_beyond_f32_are_refused_by_name(self):
        header, data = read_shard(MXFP4 / "model.safetensors")
        name = "model.layers.1.mlp.experts.down_proj"
        scale, codes = (header[f"{name}_{part}"]["data_offsets"][0] for part in ("scales", "blocks"))
        for change, mention in (({scale + 128 + 3: 255}, r"down_proj_scales.*scale NaN at row 1, column 1"),
                                ({scale + 128 + 3: 254, codes + 16 * (128 + 3): 0x07},
                                 r"down_proj_blocks.*value infinity at row 1 in group 1")):
            with self.subTest(mention=mention):
                folder = self.write(f"broken{len(change)}", True)
                broken = bytearray(data)
                for at, value in change.items():
                    broken[at] = value
                write_shard(folder / "model.safetensors", header, bytes(broken))
                output = self.scratch / "refused.moe"
                self.refused("moec", "compile", folder, "-o", output, *SOURCE, mention=rf"model.safetensors.*{mention}")
                self.assertFalse(output.exists())
