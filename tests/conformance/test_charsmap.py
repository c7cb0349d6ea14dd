"""Precompiled maps of characters: those that SentencePiece brings along, and others made here, in tokenizer.json and
in GGUF files, against the tokenizers package."""

import os
import random
import struct

import gguf
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre

from charsmap import charsmap, published
from test_tokenizer import random_ids, same_ids, same_texts, write_tokenizer
from test_tokenizer_styles import BYTES, ENGLISH, built, unigram, write_gguf  # noqa: F401 - built is a fixture
from tokenizer_texts import CODE_POINTS, every_code_point, random_texts

LONG = bool(os.environ.get("QUIRE_LONG"))
N_TEXTS = 5000 if LONG else 300


def bytes_tokenizer(normalizer):
    tok = Tokenizer(models.BPE(vocab={b: i for i, b in enumerate(BYTES)}, merges=[], byte_fallback=True))
    tok.normalizer = normalizer
    tok.decoder = decoders.ByteFallback()
    return tok


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"])
def test_published_maps(quire, tmp_path, rule):
    """Every code point alone, with a mark behind it, and in texts."""
    tok = bytes_tokenizer(normalizers.Precompiled(published(rule)))
    texts = random_texts(N_TEXTS, rule) + every_code_point(["", "a", "\u0301"] if LONG else ["\u0301"])
    same_ids(quire, write_tokenizer(tmp_path, tok), tok, texts)


# One code point and more of every class that clusters are made of.
CLASSES = """A 1 \r \n \0 \x7f \u2065 \u0301 \u200c \u0903 \u1171e \u200d \u0600 \U000110bd \u0d4e \u0915 \u0958 \u1000 \u1780 \u094d
\u1039 \u17d2 \u093c \u00a9 \u00ae \u2049 \u2388 \U0001f600 \U0001f3fb \ufe0f \U0001f1e6 \U0001f1e7 \u1100 \u1161 \u11a8 \uac00
\uac01 \U00016d63 \u00e9 \u0897 \U000113d1 \U00011a3a \ufb01""".split(" ")


def test_clusters(quire, tmp_path):
    """Random maps over random rows of all classes: what is one cluster is replaced as one."""
    rng = random.Random(31)
    points = "".join(CLASSES)
    for k in range(400 if LONG else 12):
        keys = ["".join(rng.choice(points) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))).replace("\0", "") for _ in range(20)]
        table = {key: rng.choice(["", "x", "yz", "é", "क"]) for key in keys if key}
        tok = bytes_tokenizer(normalizers.Precompiled(charsmap(table)))
        path = tmp_path / str(k)
        path.mkdir()
        texts = ["".join(rng.choice(points) for _ in range(rng.randint(1, 14))) for _ in range(400)]
        same_ids(quire, write_tokenizer(path, tok), tok, texts)


def test_every_class(quire, tmp_path):
    """Each code point in the places that tell whether it joins: behind a letter, before one, behind a consonant's linker,
    and at both sides of a joiner."""
    tok = bytes_tokenizer(normalizers.Precompiled(charsmap({"A": "x", "\u0600": "p", "\u0916": "k", "©": "c"})))
    points = [c for c in CODE_POINTS if (c < 0x32400 or 0xE0000 <= c < 0xE1000) and (LONG or c % 7 == 0)]
    forms = ["A{}", "{}A", "\u0915\u094d{}\u0916\u0301", "\u0915{}\u0916\u0301", "{}\u200d©\u0301", "©{}\u200d©\u0301",
             "\u0600\u1100{}", "\u0600{}"]  # fmt: skip
    texts = ["\u0009".join(form.format(chr(c)) for c in points[i : i + 4000]) for form in forms for i in range(0, len(points), 4000)]
    # tokenizers 0.23.3 takes U+0911 for a consonant, but only at the left of a linker
    same_ids(quire, write_tokenizer(tmp_path, tok), tok, [t.replace("\u0911", "") for t in texts])


def t5(trained):
    """As transformers makes it of a SentencePiece model."""
    trained.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(published("nmt_nfkc")), normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), "▁")]
    )
    trained.pre_tokenizer = pre.Metaspace(prepend_scheme="always", split=True)
    trained.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    return trained


def test_t5(quire, built, tmp_path):  # noqa: F811
    _, trained = built(unigram)
    tok = t5(Tokenizer.from_str(trained.to_str()))
    model = write_tokenizer(tmp_path, tok)
    texts = random_texts(N_TEXTS, 33, ["<s>", "</s>"]) + ENGLISH + ["  a", " a ", "\u3000a", "\ta\n", "a  b", " ", "\u200b", ""]
    ids = same_ids(quire, model, tok, texts)
    same_texts(quire, model, tok, ids)
    same_texts(quire, model, tok, random_ids(tok.get_vocab_size(), 34))


def test_gguf_t5(quire, built, tmp_path):  # noqa: F811
    import json

    _, trained = built(unigram)
    value = json.loads(trained.to_str())["model"]
    tokens = [t for t, _ in value["vocab"]]
    scores = [struct.unpack("f", struct.pack("f", s))[0] for _, s in value["vocab"]]
    special = ["<unk>", "<s>", "</s>"]
    types = [2 if t == "<unk>" else 3 if t in special else 1 for t in tokens]
    model = write_gguf(tmp_path / "m.gguf", "t5", tokens, scores, types, unk_token_id=value["unk_id"],
                       eos_token_id=tokens.index("</s>"), remove_extra_whitespaces=True,
                       precompiled_charsmap=published("nmt_nfkc"))  # fmt: skip
    tok = t5(Tokenizer(models.Unigram(list(zip(tokens, scores)), value["unk_id"])))
    tok.add_special_tokens(special)
    texts = random_texts(N_TEXTS, 35, special) + ENGLISH + ["  a", " a ", "\u3000a", "\ta\n", "a  b", " ", "\u200b", ""]
    same_texts(quire, model, tok, same_ids(quire, model, tok, texts))


def refused(quire, tmp_path, data, *words):
    tokens = ["<unk>", "a"]
    path = write_gguf(tmp_path / "m.gguf", "t5", tokens, [0.0, 0.0], [2, 1], precompiled_charsmap=data)
    done = quire.run("tokenize", path, stdin="a", check=False)
    message = done.stderr.decode()
    assert done.returncode == 1 and len(message) < 400 and all(w in message for w in words), message


def test_damaged_maps(quire, tmp_path):
    good = charsmap({"A": "x", "é": "ee", "aß": ""})
    size = struct.unpack("<I", good[:4])[0]
    refused(quire, tmp_path, b"\1\2\3", "precompiled_charsmap", "3 bytes")
    refused(quire, tmp_path, struct.pack("<I", size + 4 * len(good)) + good[4:], "says that its trie has")
    refused(quire, tmp_path, struct.pack("<I", 0) + good[4:], "trie has 0")
    refused(quire, tmp_path, struct.pack("<I", size - 1) + good[4:], "multiple of 4")
    refused(quire, tmp_path, good[: 4 + size], "leads to no text")  # the texts are cut off
    refused(quire, tmp_path, good[: 4 + size] + b"\xff\xfe\0" * 8, "UTF-8")
    refused(quire, tmp_path, charsmap({"A": "x" * 2000}), "1024 bytes")
    for rounds, seed in ((3000 if LONG else 60, 36),):
        rng = random.Random(seed)
        for _ in range(rounds):  # bytes changed: an error or a tokenizer, in time
            bad = bytearray(good)
            for _ in range(rng.randint(1, 3)):
                bad[rng.randrange(len(bad))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            write_gguf(tmp_path / "m.gguf", "t5", ["<unk>", "a"], [0.0, 0.0], [2, 1], precompiled_charsmap=bytes(bad))
            done = quire.run("tokenize", tmp_path / "m.gguf", stdin="Aé aßA", check=False)
            assert done.returncode in (0, 1) and len(done.stderr) < 400
