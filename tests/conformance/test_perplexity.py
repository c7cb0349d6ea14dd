"""quire score against the perplexity that llama.cpp gives for the default model with weights dequantised to F32."""

import math
import os
from pathlib import Path

import pytest
import restore

GPL3 = Path("/usr/share/common-licenses/GPL-3")  # part of Debian's base-files
EXPECTED = 18.2994  # llama.cpp b11434, F32, chunks of 512, second halves


@pytest.fixture(scope="module")
def text():
    if not GPL3.exists():
        pytest.skip(f"{GPL3} is not on this machine")
    return GPL3.read_text()


def test_gpl3_perplexity(quire, default_model, text):
    got = quire.json("score", default_model, "--ctx", 512, "--json", stdin=text)
    assert got["tokens"] == 14 * 255
    assert got["perplexity"] == pytest.approx(EXPECTED, rel=0.003)
    assert got["perplexity"] == pytest.approx(math.exp(-got["logprob"] / got["tokens"]), rel=1e-5)


@pytest.mark.skipif(not os.environ.get("QUIRE_LONG"), reason="half a minute: make test-long")
def test_fp8_costs_less_than_one_percent(quire, default_model, text, tmp_path):
    restore.restore(default_model, tmp_path / "bf16.gguf", "BF16")
    args = ("--ctx", 512, "--quantization", "fp8", "--device", "cpu", "--json")
    got = quire.json("score", tmp_path / "bf16.gguf", *args, stdin=text)
    assert got["perplexity"] == pytest.approx(EXPECTED, rel=0.01)


def test_stride_of_the_whole_window_scores_every_token_but_each_first(quire, default_model, text):
    words = " ".join(text.split()[:400])
    n = len(quire.text("tokenize", default_model, stdin=words).split())
    got = quire.json("score", default_model, "--ctx", 128, "--stride", 128, "--json", stdin=words)
    assert got["tokens"] == n - math.ceil(n / 128)


def test_more_context_predicts_better(quire, default_model, text):
    words = " ".join(text.split()[:600])
    far = quire.json("score", default_model, "--ctx", 256, "--stride", 64, "--json", stdin=words)
    near = quire.json("score", default_model, "--ctx", 256, "--stride", 256, "--json", stdin=words)
    assert far["perplexity"] < near["perplexity"]


def test_jsonl_adds_up_to_the_whole(quire, default_model):
    """log P(b c | a) = log P(b | a) + log P(c | a b), whatever the model."""
    import json

    pairs = [("The capital", " of France is"), ("The capital of France is", " Paris"), ("The capital", " of France is Paris")]
    lines = "".join(json.dumps({"context": a, "continuation": b}) + "\n" for a, b in pairs)
    rows = [json.loads(line) for line in quire.text("score", default_model, "--jsonl", stdin=lines).splitlines()]
    assert rows[0]["logprob"] + rows[1]["logprob"] == pytest.approx(rows[2]["logprob"], abs=1e-3)
    assert rows[0]["tokens"] + rows[1]["tokens"] == rows[2]["tokens"]
    assert rows[1]["is_greedy"] is True


def test_an_empty_context_begins_with_the_bos_token(quire, default_model):
    """SmolLM2's BOS is <|im_start|>: given as the context it must say the same as no context at all."""
    import json

    lines = "".join(json.dumps({"context": c, "continuation": "user"}) + "\n" for c in ("", "<|im_start|>"))
    empty, given = [json.loads(line) for line in quire.text("score", default_model, "--jsonl", stdin=lines).splitlines()]
    assert empty == given
    assert empty["tokens"] == 1
    assert empty["logprob"] < 0
