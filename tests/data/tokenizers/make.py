#!/usr/bin/env python3
"""Makes the tokenizers and the expected ids in this folder with the reference package.

    pip install tokenizers==0.23.3
    ./make.py TEXT.jsonl...      TEXT: documents to train on; here ../documents/calibration.jsonl

Small byte-pair encoders and Unigram models of the kinds that checkpoints have, each trained on the given texts and on
corpus.json, and what the package makes of every text in corpus.json. The tests never run this script; they
hold the C++ tokenizer against its results.
"""

import base64
import json
import pathlib
import struct
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + CONTRACTIONS + r"?|[^\r\n\p{L}\p{N}]?" + UPPER + "+"
         + LOWER + "*" + CONTRACTIONS + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES)
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
             r"""| ?[\p{P}\p{S}]+[\r\n]*""" + SPACES)


QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER
          + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES)
BAILING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
           r"|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|" + O200K.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]")).replace(r"[\r\n/]*", r"[\r\n]*")


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(splits, normalizer=None, gpt2_regex=False, vocab_size=1200):
    """A tokenizer on the byte alphabet, cut by the given pre-tokenizers, GPT-2's pattern or both."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=gpt2_regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits + [last]) if splits else last
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    return tokenizer, trainer


def byte_fallback():
    """A tokenizer of SentencePiece's kind, to be trained on words; the steps are set afterwards."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    return tokenizer, trainers.BpeTrainer(vocab_size=1300, show_progress=False, special_tokens=special,
                                          limit_alphabet=150)


def added(content, id, **flags):
    token = dict(id=id, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False,
                 special=False)
    token.update(flags)
    return token


def append_tokens(document, tokens):
    vocabulary = document["model"]["vocab"]
    if isinstance(vocabulary, list):
        vocabulary = {piece: id for id, (piece, _) in enumerate(vocabulary)}
    for content, flags in tokens:
        taken = [token["id"] for token in document["added_tokens"]]
        id = vocabulary.get(content)
        if id is None:
            id = max([len(vocabulary)] + [1 + other for other in taken])
        document["added_tokens"].append(added(content, id, **flags))


def template(token, id):
    piece = {"SpecialToken": {"id": token, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [piece, text], "pair": [piece, text, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}}}


SPECIAL = {"special": True}


def gpt2(train):
    document = train(*byte_level([], gpt2_regex=True))
    append_tokens(document, [("<|endoftext|>", SPECIAL)])
    return document


def granite(train):
    document = train(*byte_level([pre_tokenizers.Digits(individual_digits=True)], gpt2_regex=True))
    append_tokens(document, [("<|end_of_text|>", SPECIAL), ("<fim_prefix>", SPECIAL)])
    return document


def llama3(train):
    document = train(*byte_level([isolated(LLAMA3)]))
    document["model"]["ignore_merges"] = True
    append_tokens(document, [("<|begin_of_text|>", SPECIAL), ("<|end_of_text|>", SPECIAL), ("<|eot_id|>", SPECIAL)])
    begin = document["added_tokens"][0]["id"]
    document["post_processor"] = {"type": "Sequence", "processors": [document["post_processor"], template("<|begin_of_text|>", begin)]}
    return document


def qwen2(train):
    document = train(*byte_level([isolated(QWEN2)], normalizers.NFC()))
    append_tokens(document, [("<|endoftext|>", SPECIAL), ("<|im_start|>", SPECIAL), ("<|im_end|>", SPECIAL),
                             ("<tool_call>", {}), ("<think>", {})])
    return document


def o200k(train):
    document = train(*byte_level([isolated(O200K)]))
    append_tokens(document, [("<|start|>", SPECIAL), ("<|end|>", SPECIAL)])
    return document


def deepseek3(train):
    splits = [isolated(r"\p{N}{1,3}"), isolated("[一-龥぀-ゟ゠-ヿ]+"), isolated(DEEPSEEK3)]
    document = train(*byte_level(splits))
    append_tokens(document, [("<｜begin▁of▁sentence｜>", SPECIAL), ("<｜User｜>", {})])
    document["post_processor"] = template("<｜begin▁of▁sentence｜>", document["added_tokens"][0]["id"])
    return document


def llama(train):
    """Llama 2, Mixtral: the space is part of the normalized text, a document is one word."""
    document = train(*byte_fallback())
    document["added_tokens"] = document["added_tokens"][:3]
    document["normalizer"] = json.loads(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]).__getstate__())
    document["pre_tokenizer"] = None
    document["decoder"] = json.loads(decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]).__getstate__())
    document["post_processor"] = template("<s>", 1)
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]  # The older spelling.
    append_tokens(document, [("<|user|>", {"rstrip": True, "special": True})])
    return document


def metaspace(train):
    """Newer Llama-like files: a space only in front of the very first word."""
    document = train(*byte_fallback())
    document["added_tokens"] = document["added_tokens"][:3]
    document["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    document["decoder"] = json.loads(decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]).__getstate__())
    document["post_processor"] = template("<s>", 1)
    return document


def flavours(train):
    """Every flavour of added token, on a vocabulary without bytes, so that characters can be unknown."""
    document = train(*byte_fallback())
    document["added_tokens"] = document["added_tokens"][:3]
    vocabulary = document["model"]["vocab"]
    for byte in range(256):
        vocabulary[f"gone{byte}"] = vocabulary.pop(f"<0x{byte:02X}>")
    document["normalizer"] = json.loads(normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(True, False)]).__getstate__())
    document["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True, "str_rep": "▁"}
    document["decoder"] = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    append_tokens(document, [("<raw>", {}), ("<left>", {"lstrip": True}), ("<right>", {"rstrip": True}),
                             ("<both>", {"lstrip": True, "rstrip": True, "special": True}),
                             ("ｆｕｌｌ", {"normalized": True}), ("whole", {"single_word": True}),
                             ("Whole", {"single_word": True, "normalized": True, "lstrip": True}),
                             ("<raw", {}), ("<rawest>", {"normalized": True})])
    return document


def qwen35(train):
    document = train(*byte_level([isolated(QWEN35)], normalizers.NFC(), vocab_size=600))
    append_tokens(document, [("<|im_start|>", SPECIAL), ("<|im_end|>", SPECIAL)])
    return document


def tekken(train):
    document = train(*byte_level([isolated(TEKKEN)], vocab_size=600))
    append_tokens(document, [("<s>", SPECIAL), ("</s>", SPECIAL)])
    document["post_processor"] = template("<s>", document["added_tokens"][0]["id"])
    return document


def bailing(train):
    document = train(*byte_level([isolated(BAILING)], vocab_size=600))
    append_tokens(document, [("<|endoftext|>", SPECIAL)])
    return document


def kimi(train):
    document = train(*byte_level([isolated(KIMI)], vocab_size=600))
    append_tokens(document, [("<|im_end|>", SPECIAL)])
    return document


def gemma(train):
    """Gemma 4: spaces are part of the normalized text, and only rows of line breaks are cut off."""
    document = train(*byte_fallback())
    document["added_tokens"] = document["added_tokens"][:3]
    document["normalizer"] = json.loads(normalizers.Replace(" ", "▁").__getstate__())
    document["pre_tokenizer"] = json.loads(isolated(r"[^\n]+|[\n]+").__getstate__())
    document["decoder"] = json.loads(decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]).__getstate__())
    document["post_processor"] = template("<s>", 1)
    return document


def charsmap(replacements):
    """SentencePiece's character map of a few replacements: a double-array trie and the texts."""
    texts, trie = b"", {}
    for key, value in sorted(replacements.items()):
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = len(texts)  # None: a key ends here.
        texts += value.encode() + b"\0"
    units, taken = {}, {0}

    def place(position, node, label):
        slots = [byte or 0 for byte in node]
        base = next(base for base in range(1, 1 << 21)
                    if all((position ^ base ^ slot) not in taken for slot in slots))
        taken.update(position ^ base ^ slot for slot in slots)
        units[position] = base << 10 | (None in node) << 8 | label
        for byte, child in node.items():
            if byte is None:
                units[position ^ base] = child | 1 << 31
            else:
                place(position ^ base ^ byte, child, byte)

    place(0, trie, 0)
    array = [units.get(index, 0) for index in range((max(units) | 255) + 1)]  # Any byte may be looked up from a unit.
    return struct.pack(f"<{len(array) + 1}I", 4 * len(array), *array) + texts


REPLACEMENTS = {"\t": " ", "\n": " ", "\r": " ", "\u0001": "", "\u007f": "", "\u200b": " ", "\ufeff": "", "…": "...", "ﬁ": "fi",
                "²": "2", "½": "1⁄2", "Å": "Å", "e\u0301": "é", "é": "e", "Ａ": "A", "ｆ": "f", "㍿": "株式会社"}


def unigram(tokenizer, byte_fallback):
    """A Unigram tokenizer with SentencePiece's first three tokens."""
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256) if byte_fallback]
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer, trainers.UnigramTrainer(vocab_size=600 + len(special), show_progress=False, unk_token="<unk>",
                                              special_tokens=special)


def t5(train):
    """T5, Switch Transformers: a character map, spaces in front of words, end of text."""
    document = train(*unigram(Tokenizer(models.Unigram()), False))
    document["added_tokens"] = document["added_tokens"][:3]
    map = base64.b64encode(charsmap(REPLACEMENTS)).decode()
    document["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": map},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}
    document["decoder"] = document["pre_tokenizer"]
    document["post_processor"] = template("</s>", 2)
    document["post_processor"]["single"].reverse()
    append_tokens(document, [("<extra_id_0>", {"special": True, "lstrip": True}), ("<extra_id_1>", {"special": True, "rstrip": True})])
    return document


def unigram_bytes(train):
    """LLM-jp: a document is one word, and unknown characters become bytes."""
    document = train(*unigram(Tokenizer(models.Unigram()), True))
    document["added_tokens"] = document["added_tokens"][:3]
    document["normalizer"] = json.loads(normalizers.Sequence([normalizers.NFKC(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]).__getstate__())
    document["pre_tokenizer"] = None
    document["model"]["byte_fallback"] = True
    document["decoder"] = json.loads(decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]).__getstate__())
    return document


def compact(document):
    """One line for each part that a person might read, the vocabulary and the merges on one line each."""
    model = document.pop("model")
    lines = [f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in document.items()]
    parts = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
                       for name, value in model.items())
    return "{\n" + ",\n".join(lines) + ',\n "model": {\n' + parts + "\n }\n}\n"


def main():
    corpus = json.loads((HERE / "corpus.json").read_text())
    lines = [line for name in sys.argv[1:] for line in pathlib.Path(name).read_text().splitlines()]
    texts = [json.loads(line)["text"] for line in lines] + corpus

    def train(tokenizer, trainer):
        tokenizer.train_from_iterator(texts, trainer)
        return json.loads(tokenizer.to_str())

    for make in (gpt2, granite, llama3, qwen2, o200k, deepseek3, llama, metaspace, flavours, qwen35, tekken, bailing, kimi,
                 gemma, t5, unigram_bytes):
        path = HERE / f"{make.__name__}.json"
        if not path.exists():  # Training is not deterministic; delete a file to make it anew.
            path.write_text(compact(make(train)))
        text = path.read_text()
        tokenizer = Tokenizer.from_str(text)
        ids = [tokenizer.encode(entry).ids for entry in corpus]
        with (HERE / f"{make.__name__}.expected.json").open("w") as out:
            json.dump({"made_by": f"tokenizers {tokenizers.__version__}", "ids": ids,
                       "decoded": [tokenizer.decode(row, skip_special_tokens=False) for row in ids],
                       "decoded_without_special": [tokenizer.decode(row) for row in ids]},
                      out, ensure_ascii=False, separators=(",", ":"))
            out.write("\n")


if __name__ == "__main__":
    main()
