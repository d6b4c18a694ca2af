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
        for key, value, mention in (("quant_method", "bitnet", 'found "bitnet", expected one of awq'),
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
