#!/usr/bin/env python3
"""Makes the tokenizers and the expected ids in this folder with the reference package.

    pip install tokenizers==0.23.3
    ./make.py TEXT.jsonl...      TEXT: documents to train on; here ../documents/calibration.jsonl

Small byte-pair encoders of the kinds that checkpoints have, each trained on the given texts and on
corpus.json, and what the package makes of every text in corpus.json. The tests never run this script; they
hold the C++ tokenizer against its results.
"""

import json
import pathlib
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


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(splits, normalizer=None, gpt2_regex=False):
    """A tokenizer on the byte alphabet, cut by the given pre-tokenizers, GPT-2's pattern or both."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=gpt2_regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits + [last]) if splits else last
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=1200, show_progress=False,
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
    for content, flags in tokens:
        taken = [token["id"] for token in document["added_tokens"]]
        id = document["model"]["vocab"].get(content)
        if id is None:
            id = max([len(document["model"]["vocab"])] + [1 + other for other in taken])
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

    for make in (gpt2, granite, llama3, qwen2, o200k, deepseek3, llama, metaspace, flavours):
        text = compact(make(train))
        (HERE / f"{make.__name__}.json").write_text(text)
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
