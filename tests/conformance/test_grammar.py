"""Structured output: what the masks of a grammar let through is valid by jsonschema, and what is valid they let through."""

import datetime
import ipaddress
import json
import os
import random
import re
import subprocess
import uuid
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest

from grammar_schemas import KINDS, REFUSED, mixed_schema, mixed_value, random_schemas, value

STYLES = [
    {"separators": (", ", ": ")},
    {"separators": (",", ":"), "ensure_ascii": False},
    {"separators": (",", ": "), "ensure_ascii": False},
]
N_RANDOM = 150  # random schemas
WALKS = 6  # texts of each schema


@pytest.fixture(scope="session")
def masks(quire, shared, default_model):
    """Asks the program of the C tests that walks over masks."""
    program = Path(quire.path).parent / "test" / "text" / "test_grammar_walk"
    if not program.exists():
        pytest.skip(f"{program} is not built: run make tests")
    qwen = shared / "tokenizers" / "qwen2.5" / "tokenizer.json"
    tokenizer = qwen if qwen.exists() else default_model

    def ask(requests, timeout=600):
        lines = "".join(json.dumps(r) + "\n" for r in requests)
        done = subprocess.run([program, tokenizer], input=lines.encode(), capture_output=True, timeout=timeout)
        assert done.returncode == 0, f"exit {done.returncode}: {done.stderr.decode()[-3000:]}"
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        assert len(answers) == len(requests)
        return answers

    return ask


FORMATS = {
    "date": lambda s: datetime.date.fromisoformat(s),
    "time": lambda s: datetime.time.fromisoformat(s).tzinfo,
    "date-time": lambda s: datetime.datetime.fromisoformat(s).tzinfo,
    "uuid": lambda s: uuid.UUID(s),
    "ipv4": lambda s: ipaddress.IPv4Address(s),
    "ipv6": lambda s: ipaddress.IPv6Address(s),
    "email": lambda s: re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", s).group(),
    "hostname": lambda s: re.fullmatch(r"(?!-)[A-Za-z0-9-]+(\.(?!-)[A-Za-z0-9-]+)*", s).group(),
    "uri": lambda s: re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", s).group(),
    "duration": lambda s: re.fullmatch(r"P(?!$)(\d+[YMWD])*(T(?=\d)(\d+[HMS])+)?", s).group(),
}
CHECKER = jsonschema.FormatChecker(formats=())
for name, check in FORMATS.items():
    CHECKER.checks(name, raises=(ValueError, AttributeError))(lambda s, check=check: not isinstance(s, str) or check(s) is not None)


def exact(x):
    """Floats as decimals, for multipleOf."""
    if isinstance(x, float):
        return Decimal(repr(x))
    if isinstance(x, list):
        return [exact(v) for v in x]
    return {k: exact(v) for k, v in x.items()} if isinstance(x, dict) else x


def is_valid(schema, text):
    draft = jsonschema.Draft7Validator if "additionalItems" in str(schema) or "definitions" in str(schema) else jsonschema.Draft202012Validator
    if "\\p{" in str(schema).lower():  # Python's re does not know it
        return True
    if "multipleOf" in json.dumps(schema):
        instance = json.loads(text, parse_float=Decimal)
        schema = exact(schema)
    else:
        instance = json.loads(text)
    return draft(schema, format_checker=CHECKER).is_valid(instance)


def test_kinds_are_many():
    assert len(KINDS) + N_RANDOM >= 200 and (len(KINDS) + N_RANDOM) * WALKS >= 1000


def check_walks(schemas, answers):
    texts = 0
    for schema, answer in zip(schemas, answers):
        shown = json.dumps(schema)[:300]
        assert "error" not in answer, f"{shown}: {answer['error']}"
        assert "failed" not in answer, f"{shown}: {answer['failed']}"
        for text in answer["texts"]:
            text.encode()  # no lone surrogates
            assert is_valid(schema, text), f"{shown}: {text}"
            texts += 1
    return texts


def test_every_text_is_valid(masks):
    schemas = [k[0] for k in KINDS] + random_schemas(N_RANDOM)
    answers = masks([{"schema": s, "walks": WALKS, "free": 5 + 7 * (i % 5), "seed": 100 * i} for i, s in enumerate(schemas)])
    assert check_walks(schemas, answers) >= 1000


def test_every_valid_value_is_let_through(masks):
    requests, wanted = [], []
    for schema, good, bad in KINDS:
        for v in good:
            assert is_valid(schema, json.dumps(v)), f"{schema}: {v!r} is not valid"
        for v in bad:
            assert not is_valid(schema, json.dumps(v)) or "\\p{" in str(schema), f"{schema}: {v!r} is valid"
        texts = [json.dumps(v, **style) for v in good for style in STYLES]
        wrong = [json.dumps(v, **style) for v in bad for style in STYLES]
        requests.append({"schema": schema, "accept": texts + wrong})
        wanted.append((schema, texts, wrong))
    for (schema, texts, wrong), answer in zip(wanted, masks(requests)):
        assert "accepted" in answer, f"{schema}: {answer}"
        for text, verdict in zip(texts + wrong, answer["accepted"]):
            assert (verdict is None) == (text in texts), f"{schema}: {text[:200]}: {verdict}"


def test_random_schemas_let_their_values_through_and_no_others(masks):
    schemas = random_schemas(300, seed=11)
    rng = random.Random(5)
    values = [[value(s, rng) for _ in range(4)] for s in schemas]
    pool = [v for vs in values for v in vs]
    requests = []
    for s, vs in zip(schemas, values):
        requests.append({"schema": s, "accept": [json.dumps(v, **rng.choice(STYLES)) for v in vs + rng.sample(pool, 8)]})
    n = 0
    for r, answer in zip(requests, masks(requests)):
        assert "accepted" in answer, f"{r['schema']}: {answer}"
        for i, (text, verdict) in enumerate(zip(r["accept"], answer["accepted"])):
            valid = is_valid(r["schema"], text)
            if i < 4:
                assert valid, f"{r['schema']}: {text}"
                assert verdict is None, f"{r['schema']}: {text}: {verdict}"
            elif verdict is None:  # one that is valid may be refused: members in another order
                assert valid, f"{r['schema']}: {text} was let through"
            n += not valid
    assert n > 500


def holds(schema, text):
    """is_valid; None when jsonschema itself finds no end in a $ref that leads back."""
    try:
        return is_valid(schema, text)
    except RecursionError:
        return None


def test_mixed_keywords(masks):
    """Keywords that meet in one schema: no text that a grammar lets through is wrong."""
    rng = random.Random(int(os.environ.get("QUIRE_SEED", 1)))
    requests = []
    for i in range(6000 if os.environ.get("QUIRE_LONG") else 1200):
        texts = [json.dumps(mixed_value(rng)) for _ in range(25)]
        requests.append({"schema": mixed_schema(rng), "walks": 4, "free": i % 25, "seed": i, "accept": texts})
    n = {"refused": 0, "texts": 0, "right": 0, "wrong": 0, "order": 0}
    for r, answer in zip(requests, masks(requests)):
        if "error" in answer:
            n["refused"] += 1
            continue
        shown = json.dumps(r["schema"])
        assert "failed" not in answer, f"{shown}: {answer['failed']}"
        for text in answer["texts"]:
            assert holds(r["schema"], text) is not False, f"{shown}: {text}"
            n["texts"] += 1
        for text, verdict in zip(r["accept"], answer["accepted"]):
            valid = holds(r["schema"], text)
            assert verdict is not None or valid is not False, f"{shown}: {text} was let through"
            n["right" if valid else "wrong"] += 1
            n["order"] += bool(valid) and verdict is not None
    print(n)
    assert n["texts"] > 1000 and n["right"] > 1000 and n["wrong"] > 1000 and n["order"] < n["right"] / 10


def test_broken_texts_are_refused(masks):
    schema = {"type": "array"}
    texts = ["[1,]", "[01]", "[1.]", "[.5]", "[+1]", "[1e]", "[-]", '["\\x"]', '["\\ud800"]', '["\\udc00\\ud800"]', '["\x01"]', "['a']", "[nul]", "[1", "[1]]", "", "[ 1]", "[1,  2]", "[1\n]", '["\\u12"]', '["a]', "[NaN]", '[{"a" :1}]', "[{a:1}]", '[{"a":1,}]', '[{,}]', "//", " []"]
    for text, verdict in zip(texts, masks([{"schema": schema, "accept": texts}])[0]["accepted"]):
        assert verdict is not None, text


def test_refusals_name_the_keyword(masks):
    for (schema, wanted), answer in zip(REFUSED, masks([{"schema": s, "walks": 1} for s, _ in REFUSED])):
        assert "error" in answer, f"{schema} is not refused"
        assert wanted in answer["error"] and len(answer["error"]) < 400, f"{schema}: {answer['error']}"


def test_hostile_schemas_take_bounded_time(masks):
    def nested(n):
        s = {"type": "integer"}
        for _ in range(n):
            s = {"type": "array", "items": s}
        return s

    chain = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"type": "null"}]} for i in range(5000)}
    chain["d5000"] = {"type": "integer"}
    hostile = {
        "deep": nested(60),
        "too deep": nested(120),
        "enum": {"enum": [f"value number {i}" for i in range(100000)]},
        "names": {"type": "object", "properties": {f"name {i}": {"type": "string"} for i in range(10000)}},
        "optional names": {"type": "object", "properties": {f"name {i}": {} for i in range(5000)}, "additionalProperties": False},
        "anyOf consts": {"anyOf": [{"const": f"c{i}"} for i in range(20000)]},
        "anyOf objects": {"anyOf": [{"type": "object", "properties": {"a": {"const": i}}} for i in range(1000)]},
        "chain": {"$ref": "#/$defs/d0", "$defs": chain},
        "quantifiers": {"type": "string", "pattern": "((a{1,99}){1,99}){1,99}"},
        "alternatives": {"type": "string", "pattern": "(a|aa|aaa|.)*(b|ab)+(.|..|...)*$"},
        "subsets": {"type": "string", "pattern": "[ab]*a[ab]{14}$"},
        "length": {"type": "string", "pattern": "^[a-z ]*$", "minLength": 9000, "maxLength": 90000},
        "long": {"description": "x" * 1000000},
        "lengths": {"type": "array", "prefixItems": [{"type": "string", "maxLength": i} for i in range(3000)]},
        "oneOf": {"oneOf": [{"type": "object", "properties": {"t": {"const": i}}, "required": ["t"]} for i in range(60)]},
        "allOf anyOf": {"allOf": [{"anyOf": [{"minimum": i}, {"maxLength": i}, {"maxItems": i}]} for i in range(12)]},
        "ambiguous": {"$defs": {"a": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/a"}}, {"type": "array", "prefixItems": [{"$ref": "#/$defs/a"}]}, {"type": "null"}]}}, "$ref": "#/$defs/a"},
        "unicode": {"type": "string", "pattern": "^(\\W|\\D|\\S|\\P{Lu}){50}$"},
        "numbers": {"type": "array", "prefixItems": [{"type": "number", "minimum": -i / 7, "maximum": i * 3.1} for i in range(1000)]},
        "counts": {"type": "object", "properties": {f"p{i}": {} for i in range(300)}, "maxProperties": 299},
        "items": {"type": "array", "minItems": 50000, "items": {"type": "null"}},
    }
    for name, schema in hostile.items():
        (answer,) = masks([{"schema": schema, "walks": 0 if name == "items" else 2, "free": 10}], timeout=60)
        print(f"{name}: {answer.get('error') or answer.get('failed') or 'compiled'} in {answer['compile_ms']:.0f} ms")
        assert answer["compile_ms"] < 15000, name  # far above what it takes, also under a sanitizer
        if "texts" in answer and answer["texts"] and name not in ("long",):
            for text in answer["texts"]:
                assert is_valid(schema, text), f"{name}: {text[:300]}"


PATTERNS = ["[a-c]+", "(ab|a)(bc|c)", "x{2,4}y?", "\\d+\\.\\d{2}", "[^a]b", "é+|ü", "(?:yes|no|maybe)", "a*b*c*", "[\\w.]+@[a-z]+\\.com", ".{3}", "\\$\\{[A-Z_]+\\}", "^abc$", "(^a|b)c", "[]a]", "a|", "[\\]\\-x]{2}"]


def test_patterns_match_whole_texts_as_re_does(masks):
    answers = masks([{"regex": p, "walks": 30, "free": i % 12, "seed": i} for i, p in enumerate(PATTERNS) if p != "[]a]"])
    for p, answer in zip([p for p in PATTERNS if p != "[]a]"], answers):
        assert "texts" in answer, f"{p}: {answer}"
        for text in answer["texts"]:
            assert re.fullmatch(p, text), f"{p}: {text!r}"


def test_patterns_let_through_what_re_does(masks):
    rng = random.Random(3)
    alphabet = "abcxy.@é 1\n-]"
    texts = ["".join(rng.choice(alphabet) for _ in range(rng.randint(0, 6))) for _ in range(400)]
    patterns = [p for p in PATTERNS if p not in ("[]a]",)]
    for p, answer in zip(patterns, masks([{"regex": p, "accept": texts} for p in patterns])):
        for text, verdict in zip(texts, answer["accepted"]):
            if "\n" in text and "." in p:
                continue
            assert (verdict is None) == bool(re.fullmatch(p, text)), f"{p}: {text!r}: {verdict}"


def test_choice(masks):
    choice = ["yes", "no", "not sure", "nö", "y"]
    answer = masks([{"choice": choice, "walks": 200, "free": 9, "accept": choice + ["n", "yess", ""]}])[0]
    assert set(answer["texts"]) == set(choice)
    assert [v is None for v in answer["accepted"]] == [True] * 5 + [False] * 3


def test_masks_are_cheap(masks, capsys):
    """Prints the figures; what they must be is no test, since other programs run too."""
    schemas = [k[0] for k in KINDS]
    answers = masks([{"schema": s, "walks": 10, "free": 30} for s in schemas])
    n = sum(a["masks"] for a in answers)
    warm = sum(a["warm_us"] * a["masks"] for a in answers) / n
    cold = sum(a["mask_us"] * a["masks"] for a in answers) / n
    with capsys.disabled():
        print(
            f"\n{len(schemas)} schemas: {warm:.1f} us a mask once kept (worst {max(a['warm_worst_us'] for a in answers):.0f}), "
            f"{cold:.1f} us with the first ones (worst {max(a['worst_us'] for a in answers) / 1e3:.1f} ms, "
            f"{sum(a['cold'] for a in answers)} of {n} over 100 us), compiling {max(a['compile_ms'] for a in answers):.1f} ms at most"
        )
    assert warm < cold
