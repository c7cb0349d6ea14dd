"""Structured answers of a model with random weights, through the server: whatever it says, an answer that ended by itself parses
and fulfils its schema by jsonschema: 1,000 generations."""

import collections
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from grammar_schemas import KINDS, random_schemas
from server import Server
from test_grammar import is_valid

LONG = bool(os.environ.get("QUIRE_LONG"))
SCHEMAS = [schema for schema, _, _ in KINDS if isinstance(schema, dict)] + random_schemas(100)
SEEDS = (10 if LONG else 1) * -(-1000 // len(SCHEMAS))
CLIENTS = 8


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-qwen3"] if LONG else ["tiny-llama"])
def server(quire, tmp_path_factory, request):
    path = tmp_path_factory.mktemp("schemas") / "tiny.gguf"
    quire.run("synth", request.param, path, "--seed", 5)
    running = Server(quire.path, path, "--max-num-seqs", CLIENTS, "--kv-cache-tokens", 8192)
    yield running
    assert running.stop() == 0


def test_whatever_a_random_model_says_fulfils_its_schema(server):
    counts, wrong, open_kinds = collections.Counter(), [], set(range(len(SCHEMAS)))

    def ask(job):
        i, seed = job
        body = {"messages": [{"role": "user", "content": "Say."}], "temperature": 1, "seed": seed, "max_tokens": 256,
                "stream": seed % 2 == 1, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMAS[i]}}}  # fmt: skip
        status, _, answer = server.ask("/v1/chat/completions", body, timeout=120)
        assert status == 200, (SCHEMAS[i], answer)
        if body["stream"]:
            chunks = [json.loads(line[6:]) for line in answer.decode().split("\n\n") if line.startswith("data: {")]
            text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
            finish = chunks[-1]["choices"][0]["finish_reason"]
        else:
            (choice,) = json.loads(answer)["choices"]
            text, finish = choice["message"]["content"], choice["finish_reason"]
        counts[finish] += 1
        if finish == "stop":
            open_kinds.discard(i)
            try:
                good = is_valid(SCHEMAS[i], text)
            except ValueError:
                good = False
            if not good:
                wrong.append((SCHEMAS[i], seed, text))

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(ask, [(i, seed) for seed in range(SEEDS) for i in range(len(SCHEMAS))]))
    print(f"{len(SCHEMAS)} schemas, {sum(counts.values())} answers, {dict(counts)}, never finished: {len(open_kinds)}")
    assert wrong == []
    assert len(SCHEMAS) >= 200 and set(counts) <= {"stop", "length"}
    assert sum(counts.values()) >= 1000 and counts["stop"] > sum(counts.values()) // 2
