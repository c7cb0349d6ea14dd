"""`quire complete` with --json-schema, --json-object, --regex and --choice: answers keep to the form, by jsonschema and re;
a second turn of a conversation computes what is new (`bench latency --second-turn`)."""

import json
import re

import jsonschema
import pytest

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 20},
        "year": {"type": "integer", "minimum": 1900, "maximum": 2030},
        "genres": {"type": "array", "items": {"enum": ["drama", "comedy"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["title", "year", "genres"],
    "additionalProperties": False,
}


def answer(quire, model, *options, seed=1):
    return quire.text("complete", model, "-p", "A film:", "--seed", seed, "--temperature", 1, "-n", 200, *options).rstrip("\n")


@pytest.mark.parametrize("seed", range(3))
def test_a_schema_from_the_line_and_from_a_file(quire, default_model, tmp_path, seed):
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    for source in json.dumps(SCHEMA), f"@{tmp_path}/schema.json":
        jsonschema.validate(json.loads(answer(quire, default_model, "--json-schema", source, seed=seed)), SCHEMA)


def test_patterns_and_choices(quire, default_model):
    assert re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", answer(quire, default_model, "--regex", "[0-9]{4}-(0[1-9]|1[0-2])"))
    assert answer(quire, default_model, "--choice", "yes", "--choice", "no") in ("yes", "no")
    assert isinstance(json.loads(answer(quire, default_model, "--json-object", "--temperature", 0)), dict)


@pytest.mark.parametrize(
    "options, code, word",
    [
        (["--regex", "("], 1, "pattern"),
        (["--json-schema", '{"type":"objekt"}'], 1, "objekt|type"),
        (["--json-schema", "{"], 1, "schema"),
        (["--json-schema", "@/nowhere.json"], 1, "nowhere"),
        (["--regex", "a", "--choice", "b"], 2, "one of them"),
    ],
)
def test_what_is_no_form_is_one_sentence(quire, default_model, options, code, word):
    done = quire.run("complete", default_model, "-p", "x", *options, check=False)
    assert done.returncode == code and done.stdout == b""
    assert re.search(word, done.stderr.decode()), done.stderr


def test_a_second_turn_computes_what_is_new(quire, default_model):
    measured = quire.json("bench", "latency", default_model, "--input-len", 150, "--output-len", 23, "--second-turn", 9,
                          "--repeat", 1, "--json")  # fmt: skip
    assert measured["second_turn_cached_tokens"] == 150 + 23 - 1  # nothing was computed from the answer's last token
    without = quire.json("bench", "latency", default_model, "--input-len", 50, "--output-len", 5, "--second-turn", 9,
                         "--repeat", 1, "--json", "--no-enable-prefix-caching")  # fmt: skip
    assert without["second_turn_cached_tokens"] == 0
