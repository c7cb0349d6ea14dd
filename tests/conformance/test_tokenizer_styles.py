"""Tokenizers of other styles than byte-level BPE, built and trained here with the tokenizers package: ids and decoded
texts are the package's own."""

import json
import os
import random
import time

import gguf
import numpy
import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, processors, trainers
from tokenizers import pre_tokenizers as pre

from test_tokenizer import encode, first_difference, random_ids, same_ids, same_texts, same_without_special, write_tokenizer
from tokenizer_texts import CODE_POINTS, WORDS, every_code_point, random_added, random_texts

LONG = bool(os.environ.get("QUIRE_LONG"))
N_TEXTS = 5000 if LONG else 150
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]"]
BYTES = [f"<0x{b:02X}>" for b in range(256)]
ENGLISH = """It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness.
In 1775, there were 1,500 people who didn't know that 3.14159 isn't 22/7; they said: "Well, what's new?" (and left).
The quick brown fox jumps over the lazy dog. Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files, to deal in the Software without restriction.""".split("\n")


def llama_decoder():
    return decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )


def bpe(**options):
    return Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, **options))


def llama():
    """As Llama 2 and Phi 3: the whole text is one word."""
    tok = bpe(byte_fallback=True)
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = llama_decoder()
    return tok, BYTES


def gemma():
    tok = bpe(byte_fallback=True)
    tok.normalizer = normalizers.Replace(" ", "▁")
    tok.pre_tokenizer = pre.Split(" ", "merged_with_previous")
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tok, BYTES + ["▁▁", "▁▁▁", "▁▁▁▁"]


def mistral():
    """Metaspace in front of the first piece only."""
    tok = bpe(byte_fallback=True, ignore_merges=True)
    tok.pre_tokenizer = pre.Metaspace(prepend_scheme="first", split=False)
    tok.decoder = llama_decoder()
    return tok, BYTES


def metaspace():
    tok = bpe()
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre.Metaspace(prepend_scheme="always", split=True)
    tok.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    return tok, []


def words():
    tok = Tokenizer(models.BPE(unk_token="<unk>"))  # unknown characters are not fused
    tok.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.Strip(True, True)])
    tok.pre_tokenizer = pre.Sequence([pre.Whitespace(), pre.Digits(individual_digits=True)])
    return tok, []  # no decoder: spaces between tokens


def punctuation():
    tok = bpe()
    tok.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Strip(True, False)])
    tok.pre_tokenizer = pre.Sequence(
        [pre.WhitespaceSplit(), pre.Punctuation("merged_with_previous"), pre.Metaspace(prepend_scheme="first", split=True)]
    )
    tok.decoder = decoders.Metaspace(prepend_scheme="first", split=True)
    return tok, []


def unigram():
    """As T5, but for its precompiled map (test_charsmap.py)."""
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(True, True)])
    tok.pre_tokenizer = pre.Metaspace(prepend_scheme="always", split=True)
    tok.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    return tok, []


def unigram_bytes():
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre.Sequence([pre.Punctuation(), pre.Metaspace(prepend_scheme="never", split=True)])
    tok.decoder = llama_decoder()
    return tok, BYTES


def byte_level():
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("e", "é"), normalizers.Lowercase()])
    tok.pre_tokenizer = pre.Sequence(
        [pre.Punctuation("isolated"), pre.Digits(individual_digits=False), pre.ByteLevel(add_prefix_space=False)]
    )
    tok.decoder = decoders.ByteLevel()
    return tok, []


STYLES = [llama, gemma, mistral, metaspace, words, punctuation, unigram, unigram_bytes, byte_level]


def train(style, size=2500):
    tok, extra = style()
    corpus = ENGLISH * 8 + random_texts(1200, 99)
    special = ["<unk>", "<s>", "</s>"] + extra
    if isinstance(tok.model, models.Unigram):  # whose vocabulary must hold every character of the corpus
        known = set(map(chr, range(32, 127))) | set("".join(WORDS))
        corpus = ["".join(c for c in text if c in known) for text in corpus]
        trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False)
    else:
        alphabet = pre.ByteLevel.alphabet() if style is byte_level else []
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet,
                                      limit_alphabet=700, show_progress=False)  # fmt: skip
    tok.train_from_iterator(corpus, trainer)
    value = json.loads(tok.to_str())
    # byte tokens are the model's, no added tokens
    value["added_tokens"] = [t for t in value["added_tokens"] if t["content"] not in extra]
    if style is unigram_bytes:
        value["model"]["byte_fallback"] = True
    tok = Tokenizer.from_str(json.dumps(value))
    tok.add_special_tokens(SPECIAL)
    if style is llama:
        random_added(random.Random(6), tok)
    ids = [("<s>", tok.token_to_id("<s>")), ("</s>", tok.token_to_id("</s>"))]
    tok.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    return tok


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    made = {}

    def get(style):
        if style not in made:
            tok = train(style)
            made[style] = (write_tokenizer(tmp_path_factory.mktemp(style.__name__), tok), tok)
        return made[style]

    return get


@pytest.mark.parametrize("style", STYLES, ids=lambda s: s.__name__)
def test_style(quire, built, style):
    model, tok = built(style)
    texts = random_texts(N_TEXTS, 11, SPECIAL) + ENGLISH + ["▁a ▁▁b", "a▁ ▁", "<0x41><0x0A>", "é" * 400, " ", "  a  b "]
    ids = same_ids(quire, model, tok, texts)
    same_texts(quire, model, tok, ids)
    same_texts(quire, model, tok, random_ids(tok.get_vocab_size(), 12))
    same_without_special(quire, model, tok, texts[:200])
    bos = encode(quire, model, texts[:50], "--bos", "--special")
    assert not first_difference(texts, bos, [e.ids for e in tok.encode_batch(texts[:50])])


@pytest.mark.parametrize("style", [metaspace, words, punctuation, unigram, byte_level], ids=lambda s: s.__name__)
def test_every_code_point(quire, built, style):
    """Normalization, case, punctuation and word characters of each."""
    model, tok = built(style)
    same_ids(quire, model, tok, every_code_point(["", " a", "a "] if LONG else ["a "]))


STEPS = {
    **{f.__name__: f() for f in (normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase)},
    "strip": normalizers.Strip(True, True),
    "strip left": normalizers.Strip(True, False),
    "strip right": normalizers.Strip(False, True),
    "prepend": normalizers.Prepend("x "),
    "prepend nothing": normalizers.Prepend(""),
    "replace": normalizers.Replace("aa", "b"),
    "replace by nothing": normalizers.Replace(" ", ""),
    "replace pattern": normalizers.Replace(Regex(r"\s+|\d"), "_"),
    "replace empty matches": normalizers.Replace(Regex("q*"), "-"),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_normalizers(quire, tmp_path, name):
    """Each by itself, seen through a tokenizer whose tokens are bytes."""
    tok = Tokenizer(models.BPE(vocab={b: i for i, b in enumerate(BYTES)}, merges=[], byte_fallback=True))
    tok.normalizer = STEPS[name]
    tok.decoder = decoders.ByteFallback()
    model = write_tokenizer(tmp_path, tok)
    texts = random_texts(N_TEXTS, 13) + ["aaa", "aaaa", "q", "qaq", "İǅß", "\u1e9e\u0130", "\ufdfa", "Σας"]
    texts += [chr(c) for c in CODE_POINTS if c < 0x500 or 0xA640 <= c < 0xABC0 or c % 97 == 0]
    ids = same_ids(quire, model, tok, texts)
    same_texts(quire, model, tok, ids)
    if name in ("NFD", "NFKC", "NFKD", "Lowercase"):
        same_ids(quire, model, tok, every_code_point(["", "b"]))


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
@pytest.mark.parametrize("split", [True, False])
def test_metaspace(quire, tmp_path, scheme, split):
    tok = train(metaspace, 600)
    tok.pre_tokenizer = pre.Metaspace(replacement="_", prepend_scheme=scheme, split=split)
    tok.decoder = decoders.Metaspace(replacement="_", prepend_scheme=scheme, split=split)
    model = write_tokenizer(tmp_path, tok)
    ids = same_ids(quire, model, tok, random_texts(100, 14, SPECIAL) + ["_a _ b", " a", "__", "<s> a</s>_b"])
    same_texts(quire, model, tok, ids)


BEHAVIORS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]


@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_punctuation(quire, tmp_path, behavior):
    tok = train(words, 600)
    tok.pre_tokenizer = pre.Punctuation(behavior)
    model = write_tokenizer(tmp_path, tok)
    same_ids(quire, model, tok, random_texts(100, 15) + ["a..b", "...", "a.b.", "¿!a"])


def test_added_tokens_of_every_kind(quire, tmp_path):
    """Single words, stripping, normalized or not, in tokenizers that normalize and prepend."""
    rng = random.Random(16)
    for k, style in enumerate([llama, metaspace, words, unigram] * (5 if LONG else 1)):
        tok = train(style, 700)
        for _ in range(12):
            text = rng.choice(["foo", "Bar", " x", "né", "É", "a b", "\u212b", "1", "..", "▁y", "hello", "ﬁ"]) + rng.choice(["", "", "z"])
            token = AddedToken(text, single_word=rng.random() < 0.3, lstrip=rng.random() < 0.3, rstrip=rng.random() < 0.3,
                               normalized=rng.random() < 0.6)  # fmt: skip
            (tok.add_special_tokens if rng.random() < 0.3 else tok.add_tokens)([token])
        path = tmp_path / str(k)
        path.mkdir()
        model = write_tokenizer(path, tok)
        tok = Tokenizer.from_str(tok.to_str())  # one that was added twice decodes otherwise before
        special = [t.content for t in tok.get_added_tokens_decoder().values()]
        texts = random_texts(N_TEXTS, 17, special) + [t + " " + t + "é" for t in special]
        same_texts(quire, model, tok, same_ids(quire, model, tok, texts))
        same_without_special(quire, model, tok, texts)


def test_unknown_tokens(quire, tmp_path):
    """Fused or not, with byte tokens for some of the bytes only, with none for unknown ones."""
    for k, (fuse, unk, some) in enumerate((f, u, s) for f in (False, True) for u in ("<unk>", None) for s in (0, 1, 2)):
        vocab = ["<unk>", "a", "b", "ab", "é", "▁", "▁a"] + [b for i, b in enumerate(BYTES) if some and (some == 2 or i % 4)]
        tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(vocab)}, merges=[("a", "b"), ("▁", "a")], unk_token=unk,
                                   fuse_unk=fuse, byte_fallback=some > 0))  # fmt: skip
        tok.normalizer = normalizers.Replace(" ", "▁")
        path = tmp_path / str(k)
        path.mkdir()
        model = write_tokenizer(path, tok)
        rng = random.Random(18)
        texts = ["".join(rng.choice("ab é语😀xz\n") for _ in range(rng.randint(0, 30))) for _ in range(300)]
        same_texts(quire, model, tok, same_ids(quire, model, tok, texts))


def test_random_merges(quire, tmp_path):
    """Merges of anything with anything, tokens of bytes and of unknown characters among them: where words may be cut."""
    rng = random.Random(19)
    for k in range(300 if LONG else 40):
        letters = ["a", "b", "▁", "é", "語", "\x7f"] + ["<unk>"] * (k % 4 < 2) + ["<0xC3>", "<0xA9>"] * (k % 2)
        vocab = rng.sample(letters, rng.randint(3, len(letters)))
        vocab += ["<unk>"] * ("<unk>" not in vocab)
        merges = []
        for _ in range(rng.randint(0, 12)):
            left, right = rng.choice(vocab), rng.choice(vocab)
            if left + right not in vocab and len(left + right) < 20:
                vocab.append(left + right)
                merges.append((left, right))
        tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(vocab)}, merges=merges, byte_fallback=rng.random() < 0.5,
                                   unk_token=rng.choice([None, "<unk>"]), fuse_unk=rng.random() < 0.5,
                                   ignore_merges=rng.random() < 0.2))  # fmt: skip
        path = tmp_path / str(k)
        path.mkdir()
        texts = ["".join(rng.choice("aabb▁é語\x7f\x01z<") for _ in range(rng.randint(1, 90))) for _ in range(80)]
        same_ids(quire, write_tokenizer(path, tok), tok, texts)


REFUSED = {
    "normalizer": [{"type": "Nmt"}, {"type": "BertNormalizer"}, {"type": "StripAccents"}],
    "pre_tokenizer": [{"type": "BertPreTokenizer"}, {"type": "UnicodeScripts"}, {"type": "FixedLength", "length": 5}],
    "decoder": [{"type": "WordPiece"}, {"type": "CTC"}, {"type": "BPEDecoder"}, {"type": "ByteLevel"}],
    "post_processor": [{"type": "BertProcessing"}, {"type": "RobertaProcessing"}],
    "model": [{"type": "WordPiece"}, {"type": "WordLevel"}],
}


def test_refused_by_name(quire, built, tmp_path):
    model, tok = built(llama)
    for part, components in REFUSED.items():
        for component in components:
            value = json.loads(tok.to_str())
            value[part] = component
            (tmp_path / "tokenizer.json").write_text(json.dumps(value))
            done = quire.run("tokenize", tmp_path, stdin="a", check=False)
            message = done.stderr.decode()
            assert done.returncode == 1 and component["type"] in message and len(message) < 400, message
    for key, bad in {"dropout": 0.1, "end_of_word_suffix": "</w>", "continuing_subword_prefix": "##"}.items():
        value = json.loads(tok.to_str())
        value["model"][key] = bad
        (tmp_path / "tokenizer.json").write_text(json.dumps(value))
        done = quire.run("tokenize", tmp_path, stdin="a", check=False)
        assert done.returncode == 1 and key in done.stderr.decode()


# ---------------------------------------------------------------- GGUF


def write_gguf(path, model, tokens, scores, types, **more):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    for key, value in more.items():
        getattr(writer, "add_" + key)(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def token_type(text):
    return 2 if text == "<unk>" else 3 if text in SPECIAL else 6 if text in BYTES else 1


def merges_by_score(tokens, scores):
    """As transformers converts a SentencePiece model: every way to cut a token into two others, best token first."""
    ids = {t: i for i, t in enumerate(tokens)}
    found = []
    for text, score in zip(tokens, scores):
        cuts = [(text[:k], text[k:]) for k in range(1, len(text)) if text[:k] in ids and text[k:] in ids]
        if token_type(text) == 1:
            found += [(left, right, score) for left, right in sorted(cuts, key=lambda c: (ids[c[0]], ids[c[1]]))]
    return [(left, right) for left, right, _ in sorted(found, key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)]


@pytest.mark.parametrize("space", [True, False])
def test_gguf_llama(quire, built, tmp_path, space):
    _, trained = built(llama)
    vocab = trained.get_vocab(with_added_tokens=False)
    tokens = sorted(vocab, key=vocab.get)
    scores = [0.0 if token_type(t) != 1 else -float(i) for i, t in enumerate(tokens)]
    model = write_gguf(tmp_path / "m.gguf", "llama", tokens, scores, [token_type(t) for t in tokens], unk_token_id=vocab["<unk>"],
                       bos_token_id=vocab["<s>"], eos_token_id=vocab["</s>"], add_space_prefix=space)  # fmt: skip
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges_by_score(tokens, scores), unk_token="<unk>", fuse_unk=True,
                               byte_fallback=True))  # fmt: skip
    steps = [normalizers.Prepend("▁")] * space + [normalizers.Replace(" ", "▁")]
    tok.normalizer = normalizers.Sequence(steps)
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tok.decoder = decoders.Sequence(back + [decoders.Strip(" ", 1, 0)] * space)
    tok.add_special_tokens(["<unk>", "<s>", "</s>"])
    texts = random_texts(N_TEXTS, 21, ["<s>", "</s>"]) + ENGLISH
    ids = same_ids(quire, model, tok, texts)
    same_texts(quire, model, tok, ids)
    same_texts(quire, model, tok, random_ids(tok.get_vocab_size(), 22))
    assert encode(quire, model, ["a"], "--bos")[0][0] == vocab["<s>"]


def test_gguf_t5(quire, built, tmp_path):
    _, trained = built(unigram_bytes)
    value = json.loads(trained.to_str())["model"]
    tokens, scores = [t for t, _ in value["vocab"]], [float(numpy.float32(s)) for _, s in value["vocab"]]
    model = write_gguf(tmp_path / "m.gguf", "t5", tokens, scores, [token_type(t) for t in tokens], unk_token_id=value["unk_id"],
                       eos_token_id=tokens.index("</s>"), remove_extra_whitespaces=True)  # fmt: skip
    tok = Tokenizer(models.Unigram(list(zip(tokens, scores)), value["unk_id"], byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), "▁")])
    tok.pre_tokenizer = pre.Metaspace(prepend_scheme="always", split=True)
    tok.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    tok.add_special_tokens(["<unk>", "<s>", "</s>"])
    texts = random_texts(N_TEXTS, 23, ["<s>", "</s>"]) + ENGLISH
    same_texts(quire, model, tok, same_ids(quire, model, tok, texts))
    assert encode(quire, model, ["a"], "--bos")[0][-1] == tokens.index("</s>")


def test_gguf_that_is_wrong(quire, tmp_path):
    tokens, types = ["<unk>", "a", "b", "ab"], [2, 1, 1, 1]
    for name, scores, words in (("nan", [0.0, 1.0, float("nan"), 0.0], "not finite"), ("few", [0.0], "entries")):
        path = write_gguf(tmp_path / name, "llama", tokens, scores, types)
        done = quire.run("tokenize", path, stdin="a", check=False)
        assert done.returncode == 1 and words in done.stderr.decode()
    path = write_gguf(tmp_path / "map", "t5", tokens, [0.0] * 4, types, precompiled_charsmap=b"\1\2\3")
    done = quire.run("tokenize", path, stdin="a", check=False)
    assert done.returncode == 1 and "precompiled_charsmap" in done.stderr.decode()
    path = write_gguf(tmp_path / "other", "rwkv", tokens, [0.0] * 4, types)
    done = quire.run("tokenize", path, stdin="a", check=False)
    assert done.returncode == 1 and "rwkv" in done.stderr.decode()


# ---------------------------------------------------------------- time


def test_long_words_take_no_long_time(quire, built):
    """A word of a megabyte in a second; ten of them where the machine is slow."""
    for style in (llama, gemma, unigram, byte_level):
        model, _ = built(style)
        for word in ("a" * 10**6, "abcdefghij" * 10**5, "語" * (10**6 // 3)):
            start = time.monotonic()
            quire.text("tokenize", model, stdin=word)
            assert time.monotonic() - start < 10, (style.__name__, word[:10])
