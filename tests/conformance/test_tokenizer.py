"""Ids are those of Hugging Face tokenizers, and so is the text that they are decoded to."""

import json
import os
import random

import gguf
import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, processors
from tokenizers import pre_tokenizers as pre

from tokenizer_texts import MERGES, Patterns, byte_level, every_code_point, random_added, random_texts, small_tokenizer
from tokenizer_texts import small_vocab, splits

LONG = bool(os.environ.get("QUIRE_LONG"))
N_TEXTS = 20000 if LONG else 2000


def lines(values):
    return "".join(json.dumps(v) + "\n" for v in values)


def encode(quire, model, texts, *flags):
    out = quire.text("tokenize", model, "--json", *flags, stdin=lines(texts)).split("\n")[:-1]
    assert len(out) == len(texts)
    return [json.loads(line) for line in out]


def decode(quire, model, ids, *flags):
    out = quire.text("detokenize", model, "--json", *flags, stdin=lines(ids)).split("\n")[:-1]
    assert len(out) == len(ids)
    return [json.loads(line) for line in out]


def first_difference(texts, got, want):
    for text, a, b in zip(texts, got, want):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            return f"{ascii(text[:200])}: at {at} {a[at : at + 8]} in place of {b[at : at + 8]}"
    return None


def same_ids(quire, model, tok, texts):
    got = encode(quire, model, texts, "--special")
    want = [e.ids for e in tok.encode_batch(texts, add_special_tokens=False)]
    assert not first_difference(texts, got, want)
    return got


def same_texts(quire, model, tok, ids):
    assert decode(quire, model, ids) == tok.decode_batch(ids, skip_special_tokens=False)
    assert decode(quire, model, ids, "--skip-special") == tok.decode_batch(ids, skip_special_tokens=True)


def same_without_special(quire, model, tok, texts):
    tok.encode_special_tokens = True
    got = encode(quire, model, texts)
    want = [e.ids for e in tok.encode_batch(texts, add_special_tokens=False)]
    tok.encode_special_tokens = False
    assert not first_difference(texts, got, want)


def random_ids(n_vocab, seed):
    rng = random.Random(seed)
    return [[rng.randrange(n_vocab) for _ in range(30)] for _ in range(200)]


@pytest.fixture(scope="module")
def qwen(shared):
    directory = shared / "tokenizers" / "qwen2.5"
    if not directory.exists():
        pytest.skip(f"no tokenizer at {directory}")
    return directory, Tokenizer.from_file(str(directory / "tokenizer.json"))


@pytest.fixture(scope="module")
def smollm(default_model):
    """The default model's vocabulary, with the pre-tokenizer that its authors publish."""
    fields = gguf.GGUFReader(default_model).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tok.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), byte_level(regex=True)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, types) if kind == 3])
    return default_model, tok


SPECIAL = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<|endoftext|>", "<|fim_prefix|>", "<|im_"]


@pytest.mark.parametrize("name", ["qwen", "smollm"])
def test_real_tokenizers(quire, name, request):
    model, tok = request.getfixturevalue(name)
    texts = random_texts(N_TEXTS, 1, SPECIAL)
    ids = same_ids(quire, model, tok, texts)
    same_texts(quire, model, tok, ids)
    same_texts(quire, model, tok, random_ids(tok.get_vocab_size(), 2))
    same_without_special(quire, model, tok, texts[:500])


@pytest.mark.parametrize("name", ["qwen", "smollm"])
def test_every_code_point(quire, name, request):
    model, tok = request.getfixturevalue(name)
    same_ids(quire, model, tok, every_code_point() if LONG else every_code_point(["", "a"]))


def test_round_trips(quire, smollm):
    model, _ = smollm
    texts = random_texts(300, 3, SPECIAL)
    assert decode(quire, model, encode(quire, model, texts)) == texts


def test_ill_formed_utf8(quire, smollm):
    model, tok = smollm
    rng = random.Random(4)
    for _ in range(20):
        raw = bytes(rng.choice([0x41, 0x20, 0xC3, 0xA9, 0xE2, 0x82, 0xF0, 0x9F, 0xED, 0xFF]) for _ in range(40))
        got = [int(i) for i in quire.text("tokenize", model, stdin=raw).split()]
        assert got == tok.encode(raw.decode("utf-8", "replace")).ids


def write_tokenizer(tmp_path, tok):
    (tmp_path / "tokenizer.json").write_text(tok.to_str())
    return tmp_path


BEHAVIORS = {
    **{
        f"{behavior}{' inverted' if invert else ''} {name}": pre.Sequence([pre.Split(p, behavior, invert), byte_level()])
        for behavior in ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
        for invert in [False, True]
        for name, p in {
            "spaces": Regex(r"\s+|[,.]"),
            "string": "l",
            "empty matches": Regex("x*"),
            "lookahead": Regex(r"(?=\d)"),
        }.items()
    },
    "prefix": byte_level(prefix=True, regex=True),
    "prefix without pattern": byte_level(prefix=True),
    "prefix of every piece": pre.Sequence([pre.Split(Regex(r"\s"), "isolated"), byte_level(prefix=True, regex=True)]),
    "steps behind byte level": pre.Sequence([byte_level(regex=True), pre.Digits(False), pre.Split("1", "isolated")]),
    "lines": splits(r"^a|\s+$|.$"),
}
# Sets of characters, compared on every code point.
SETS = {
    "single digits": pre.Sequence([pre.Digits(True), byte_level(regex=True)]),
    "numbers": pre.Sequence([pre.Digits(False), byte_level(regex=True)]),
    "words": splits(r"\w+|[^\w\s]+"),
    "boundaries": splits(r"\b\w"),
    "negated sets": splits(r"[^\W\d]+|[\S&&&]?".replace("&&&", "&")),
    "scripts": splits(r"[\p{Han}\p{Hiragana}\p{Katakana}]+|\p{Cyrillic}+|\p{Latin}+"),
    "categories": splits(r"[\p{Lu}\p{Lt}]+|[\p{Mn}\p{Mc}]+|\p{Sc}|\p{Pd}|\p{No}+|\P{L}"),
}


@pytest.mark.parametrize("name", BEHAVIORS)
def test_behaviors(quire, tmp_path, name):
    tok = small_tokenizer(BEHAVIORS[name])
    same_ids(quire, write_tokenizer(tmp_path, tok), tok, random_texts(200, name))


@pytest.mark.parametrize("name", SETS)
def test_sets(quire, tmp_path, name):
    tok = small_tokenizer(SETS[name])
    # PCRE2 10.42 has one code point in \p{Mn} that moved to Mc since
    texts = [t.replace("\U0001171e", "") for t in random_texts(200, name) + every_code_point("a")]
    same_ids(quire, write_tokenizer(tmp_path, tok), tok, texts)


def test_random_patterns(quire, tmp_path):
    """The same cuts as Oniguruma's, or an error that says why not."""
    rng, patterns, compared = random.Random(6), Patterns(6), 0
    for _ in range(20000 if LONG else 500):
        pattern = patterns.pattern()
        try:
            step = pre.Split(Regex(pattern), "isolated")
            texts = ["".join(rng.choice("aabbl 1'\n éxAB.S12 _\u0301一\u00a0-]sstfßſ\ufb01\u212a") for _ in range(12)) for _ in range(20)]
            tok = small_tokenizer(pre.Sequence([step, byte_level()]))
            want = [tok.encode(t).ids for t in texts]
        except BaseException:  # not a pattern, or over Oniguruma's own limit (a panic)
            continue
        done = quire.run("tokenize", write_tokenizer(tmp_path, tok), "--json", stdin=lines(texts), check=False)
        if done.returncode == 0:
            got = [json.loads(line) for line in done.stdout.splitlines()]
            assert not first_difference(texts, got, want), pattern
            compared += 1
        else:
            reasons = [b"not supported", b"not fixed length", b"more steps than allowed", b"must end with a character"]
            assert any(reason in done.stderr for reason in reasons), (pattern, done.stderr)
    assert compared > 100


def survives(tok, text):
    """tokenizers 0.23 panics ("AddedVocabulary bad split") when two tokens strip the same white space."""
    try:
        tok.encode(text)
    except BaseException as error:
        assert "bad split" in str(error)
        return False
    return True


def test_added_tokens(quire, tmp_path):
    rng = random.Random(5)
    for round_ in range(250 if LONG else 25):
        tok = small_tokenizer(
            rng.choice([byte_level(regex=True), byte_level(prefix=True, regex=True), byte_level()]),
            rng.choice([None, normalizers.NFC(), normalizers.Sequence([normalizers.NFC()])]),
        )
        words = random_added(rng, tok)
        small = "".join(words) + "hello \n\t _9a"
        texts = []
        for _ in range(150):
            part = lambda: rng.choice([rng.choice(words), rng.choice(small), rng.choice([" ", "_", ".", "é", "\u3000"])])
            texts.append("".join(part() for _ in range(rng.randint(1, 25))))
        texts = [t for t in texts if survives(tok, t)]
        directory = tmp_path / str(round_)
        directory.mkdir()
        write_tokenizer(directory, tok)
        ids = same_ids(quire, directory, tok, texts)
        same_texts(quire, directory, tok, ids[:20] + random_ids(tok.get_vocab_size(), round_)[:20])
        same_without_special(quire, directory, tok, texts)


def test_template(quire, tmp_path):
    tok = small_tokenizer(byte_level(regex=True))
    tok.add_special_tokens(["<s>", "</s>"])
    tok.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<s> $A </s>",
                special_tokens=[("<s>", tok.token_to_id("<s>")), ("</s>", tok.token_to_id("</s>"))],
            ),
        ]
    )
    texts = ["hello", "", "a <s> b"]
    got = encode(quire, write_tokenizer(tmp_path, tok), texts, "--bos", "--special")
    assert got == [tok.encode(t).ids for t in texts]


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CL100K = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CASED = r"[^\r\n\p{L}\p{N}]?%s*%s+%s|[^\r\n\p{L}\p{N}]?%s+%s*%s|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK_V3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ONE_DIGIT = pre.Digits(individual_digits=True)
# The pre-tokenizers in the tokenizer.json of the models that these names were made for.
NAMED = {
    "gpt-2": byte_level(regex=True),
    "smollm": pre.Sequence([ONE_DIGIT, byte_level(regex=True)]),
    "command-r": pre.Sequence([ONE_DIGIT, byte_level(regex=True)]),
    "llama-bpe": splits(CL100K % "{1,3}"),
    "qwen2": splits(CL100K % ""),
    "tekken": splits(CASED % (UPPER, LOWER, "", UPPER, LOWER, "", "")),
    "gpt-4o": splits(CASED % (UPPER, LOWER, CONTRACTIONS + "?", UPPER, LOWER, CONTRACTIONS + "?", "{1,3}")),
    "bloom": splits(r" ?[^(\s|[.,!?…。，、।۔،])]+"),
    "deepseek-coder": splits(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", ONE_DIGIT),
    "deepseek-v3": splits(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3),
    "falcon": pre.Sequence(
        [
            pre.Punctuation("contiguous"),
            byte_level(regex=True),
            pre.Digits(False),
            pre.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    ),
}
# Names that llama.cpp treats as another one (src/llama-vocab.cpp); what the models' own files say of the last four was not at hand.
SAME = {"pixtral": "llama-bpe", "falcon3": "llama-bpe", "megrez": "qwen2", "minerva-7b": "smollm", "trillion": "gpt-2", "mellum": "gpt-2",
        "falcon-h1": "llama-bpe", "midm-2.0": "llama-bpe", "gigachat": "gpt-2", "a.x-4.0": "gpt-2"}  # fmt: skip
NAMED |= {name: NAMED[other] for name, other in SAME.items()}
WITH_NFC = ["command-r", "qwen2"]
TAKES_WORDS_WHOLE = ["llama-bpe", "tekken", "pixtral", "falcon3", "falcon-h1", "midm-2.0"]


@pytest.mark.parametrize("name", NAMED)
def test_names_of_gguf(quire, tmp_path, name):
    tok = small_tokenizer(
        NAMED[name],
        normalizers.NFC() if name in WITH_NFC else None,
        ignore_merges=name in TAKES_WORDS_WHOLE,
    )
    vocab = small_vocab()
    path = tmp_path / "vocab.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(sorted(vocab, key=vocab.get))
    writer.add_token_types([1] * len(vocab))
    writer.add_token_merges([f"{a} {b}" for a, b in MERGES])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    same_ids(quire, path, tok, random_texts(200, name) + every_code_point("a'" if LONG else "a"))


def test_unknown_name(quire, tmp_path):
    path = tmp_path / "vocab.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("no-such-name")
    writer.add_token_list(["a"])
    writer.add_token_types([1])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    done = quire.run("tokenize", path, stdin="a", check=False)
    assert done.returncode == 1
    assert b'"no-such-name"' in done.stderr and b"smollm" in done.stderr
