"""Texts that are hard on tokenizers, and small tokenizers built with the tokenizers package."""

import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models
from tokenizers import pre_tokenizers as pre

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ASSIGNED = [c for c in CODE_POINTS if unicodedata.category(chr(c)) not in ("Cn", "Co")]
MARKS = [c for c in CODE_POINTS if unicodedata.combining(chr(c))]
COMPOSED = [c for c in CODE_POINTS if unicodedata.normalize("NFD", chr(c)) != chr(c)]
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\x0b", "\x85", "\u180e", "\u200b", "\u200d"]
WORDS = """don't I'LL we'Ve 'S 'ſ hello World camelCase HTTPServer 123456 3.14 ++i; x->y != <= /* */ #define
日本語 中文字符 한국어 العربية עברית हिन्दी বাংলা ไทย Ελληνικά Русский Việt Åse naïve Straße ﬁn ǆ 🇫🇷 👨‍👩‍👧‍👦 👍🏽 ½ ² ٣٤ १२ ⅷ
\u212a e\u0301 (a|b) …。、 \U00031350 \U00010d40 \u08cf\u0301""".split()
CODE = [
    "for (int i = 0; i < n; i++) {\n\tsum += a[i] * 2.5e-3;\n}\n",
    "def f(x):\n    return {'a': [1, 2, 3], \"b\": None}  # comment\n",
    "SELECT * FROM t WHERE id >= 1000 AND name LIKE '%x_y%';\r\n",
    "https://example.org/a/b?c=d&e=%20f#g",
]


def random_text(rng, special=()):
    parts = []
    for _ in range(rng.randint(1, 30)):
        kind = rng.random()
        if kind < 0.25:
            parts.append(rng.choice(WORDS))
        elif kind < 0.42:
            parts.append(rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 3, 7, 40]))
        elif kind < 0.5 and special:
            parts.append(rng.choice(special))
        elif kind < 0.65:
            parts.append(chr(rng.choice(ASSIGNED)) * rng.choice([1, 1, 2, 5]))
        elif kind < 0.7:
            parts.append(chr(rng.choice(COMPOSED)))
        elif kind < 0.76:
            parts.append("".join(chr(rng.choice(MARKS)) for _ in range(rng.choice([1, 2, 3, 25]))))
        elif kind < 0.9:
            parts.append("".join(chr(rng.randint(32, 126)) for _ in range(rng.randint(1, 12))))
        elif kind < 0.94:
            parts.append(rng.choice(CODE))
        elif kind < 0.97:
            jamo = [0x1100, 0x1161, 0x11A8, 0x1175, rng.randint(0xAC00, 0xD7A3)]
            parts.append("".join(chr(rng.choice(jamo)) for _ in range(4)))
        else:
            parts.append(chr(rng.randint(0, 0xD7FF)))
    return "".join(parts)


def random_texts(n, seed, special=()):
    rng = random.Random(seed)
    texts = [random_text(rng, special) for _ in range(n)]
    return texts + ["", " ", "\n", "a" * 5000, " " * 3000 + "x", "ab" * 2000 + "\u0301" * 500]


def every_code_point(joints=("", " ", "a", "'", "5", "\n")):
    """All code points (of the planes without characters every 64th), alone and in the company that patterns look at,
    some thousand a text."""
    points = [c for c in CODE_POINTS if c < 0x32400 or 0xE0000 <= c < 0xE0200 or c % 64 == 0]
    parts = [points[i : i + 4000] for i in range(0, len(points), 4000)]
    return [joint.join(map(chr, part)) for joint in joints for part in parts]


MERGES = [
    ("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello"), ("Ġ", "Ġ"), ("ĠĠ", "ĠĠ"), ("1", "2"),
    ("12", "3"), ("Ã", "©"), ("a", "b"), ("i", "n"), ("in", "g"), ("Ċ", "Ċ"), ("'", "s"), ("Ġ", "a"),
]  # fmt: skip


def small_vocab():
    vocab = {letter: i for i, letter in enumerate(sorted(pre.ByteLevel.alphabet()))}
    for left, right in MERGES:
        vocab.setdefault(left + right, len(vocab))
    return vocab


def small_tokenizer(pre_tokenizer, normalizer=None, **model):
    tok = Tokenizer(models.BPE(vocab=small_vocab(), merges=MERGES, **model))
    tok.pre_tokenizer = pre_tokenizer
    tok.decoder = decoders.ByteLevel()
    if normalizer:
        tok.normalizer = normalizer
    return tok


def byte_level(prefix=False, regex=False):
    return pre.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def splits(*steps):
    """A sequence: strings are patterns whose matches are isolated; bytes last."""
    return pre.Sequence([pre.Split(Regex(s), "isolated") if isinstance(s, str) else s for s in steps] + [byte_level()])


def random_added(rng, tok):
    """Adds some tokens with random options; returns the texts of all that may matter."""
    words = ["<a>", "<ab>", "<", "ab", "hello", "b>", "<|x|>", " ll", "é", "h e", "日", "in", "▁z", ">>", "\n\n", "  "]
    for word in rng.sample(words, rng.randint(1, 9)):
        token = AddedToken(
            word,
            single_word=rng.random() < 0.3,
            lstrip=rng.random() < 0.3,
            rstrip=rng.random() < 0.3,
            normalized=rng.random() < 0.5,
            special=rng.random() < 0.5,
        )
        (tok.add_special_tokens if token.special else tok.add_tokens)([token])
    return words


class Patterns:
    """Random regular expressions, of what Oniguruma and PCRE2 read differently above all."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def set_items(self, depth):
        items = ["a", "b", "c-e", "0-9", r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", r"\p{L}", r"\p{Lu}", r"\P{N}", "é"]
        items += [r"\p{^L}", r"\h", r"\n", "-", r"\-", r"\]", ".", "|", "(", "一-龥", "$"]
        if depth == 0:
            items.append(f"[{self.set_items(1)}]")
        return self.rng.choice(["", "", "^"]) + "".join(self.rng.choice(items) for _ in range(self.rng.randint(1, 4)))

    def atom(self, depth):
        kind = self.rng.random()
        if kind < 0.35 or depth > 2:
            return self.rng.choice(["a", "b", "l", " ", "1", "\n", "'", "é", ".", "x", "s", "'ll", "st", "S", "ff", "k"])
        if kind < 0.6:
            return f"[{self.set_items(0)}]"
        if kind < 0.8:
            return self.rng.choice([r"\s", r"\S", r"\w", r"\W", r"\d", r"\p{L}", r"\p{N}", r"\P{L}", r"\b", r"\h", "$"])
        opening = self.rng.choice(["(", "(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?m:"])
        return opening + self.pattern(depth + 1) + ")"

    def pattern(self, depth=0):
        quantifiers = ["*", "+", "?", "{2}", "{1,3}", "{2,}", "{,2}", "*?", "+?", "??", "{1,2}?", "{2}?", "{1,3}+", "++"]
        branches = []
        for _ in range(self.rng.randint(1, 3)):
            branch = ""
            for _ in range(self.rng.randint(1, 3)):
                branch += self.atom(depth) + (self.rng.choice(quantifiers) if self.rng.random() < 0.5 else "")
            branches.append(branch)
        return "|".join(branches)
