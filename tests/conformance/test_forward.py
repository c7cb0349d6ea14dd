"""The forward pass against numpy (numpy_forward.py): first the C oracle that all kernels are held to, then what `quire
complete` says; and the default model against llama.cpp's answers in fp32."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from numpy_forward import Model

ROOT = Path(__file__).resolve().parents[2]
SHAPES = ["tiny-llama", "tiny-llama3", "tiny-mistral", "tiny-qwen2", "tiny-qwen3", "tiny-gemma2", "tiny-gemma3", "tiny-phi3", "tiny-phi4"]


# ---------------------------------------------------------------------- the oracle


@pytest.fixture(scope="module")
def references(quire, tmp_path_factory):
    """Models, ids and logits that the C test of the oracle writes."""
    program = Path(os.environ.get("QUIRE_TESTS") or quire.path.parent / "test") / "whole" / "test_oracle"
    if not program.exists():
        pytest.skip(f"{program} is not built: run make tests")
    directory = tmp_path_factory.mktemp("oracle")
    subprocess.run([program], env={**os.environ, "QUIRE_REF_DIR": str(directory)}, check=True, capture_output=True)
    return directory


def test_the_oracle_agrees_with_numpy(references):
    names = sorted(path.name.removesuffix(".ids") for path in references.glob("*.ids"))
    assert len(names) >= 2 * len(SHAPES)
    for name in names:
        ids = np.fromfile(references / f"{name}.ids", np.int32)
        got = np.fromfile(references / f"{name}.logits", np.float32).reshape(len(ids), -1)
        want = Model(references / name).logits(ids)
        assert got.shape == want.shape
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error < 1e-5, f"{name}: relative error {error:.2g}"


# ---------------------------------------------------------------------- quire itself

PROMPT = [72, 101, 108, 108, 111, 7, 300, 2, 250, 0, 31, 31, 260, 199, 5, 66, 1, 140, 77, 12, 9, 319, 42, 42, 42, 8]


def complete(quire, model, prompt, n, *options):
    """Ids, and at each position {id: logprob} of the five best."""
    out = quire.json(
        "complete", model, "--prompt-ids", ",".join(map(str, prompt)), "--json", "--logprobs", 5, "--temperature", 0,
        "--max-tokens", n, *options,
    )  # fmt: skip
    assert out["prompt_token_ids"] == list(prompt)
    return out["token_ids"], [{top["id"]: top["logprob"] for top in at["top"]} for at in out["logprobs"]]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("suffix", ["", ".gguf"])
@pytest.mark.parametrize("shape", SHAPES)
def test_complete_agrees_with_numpy(quire, tmp_path, shape, suffix, dtype):
    path = tmp_path / f"model{suffix}"
    quire.run("synth", shape, path, "--dtype", dtype, "--seed", 3)
    ids, tops = complete(quire, path, PROMPT, 24, "--kv-cache-dtype", "f32", "--ignore-eos")
    assert len(ids) == len(tops) == 24
    want = Model(path).logprobs(PROMPT + ids)[len(PROMPT) - 1 : -1]
    tolerance = 1e-4 if dtype == "f32" else 2e-3  # activations keep 11 bits or more beside 16-bit weights
    for position, (chosen, top) in enumerate(zip(ids, tops)):
        for token, logprob in top.items():
            assert abs(logprob - want[position][token]) < tolerance, f"position {position}, token {token}"
        assert want[position].max() - want[position][chosen] < tolerance
        assert np.sort(want[position])[-5] - min(top.values()) < tolerance


# ---------------------------------------------------------------------- the default model


def expected(shared):
    path = shared / "expected" / "smollm2_greedy.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return json.loads(path.read_text())["results"]


def check_entry(quire, model, entry):
    ids, tops = complete(quire, model, entry["prompt_ids"], len(entry["output_ids"]), "--kv-cache-dtype", "f32")
    assert ids == entry["output_ids"], entry["user"]
    worst = 0
    for position, top in zip(entry["positions"], tops):
        want = {token: logprob for token, _, logprob in position["top5"]}
        fifth = min(want.values())
        for token, logprob in want.items():
            if token not in top:  # another one took its place: near equals only
                assert logprob - fifth < 0.02 and min(top.values()) - logprob < 0.02, (entry["user"], token)
                continue
            worst = max(worst, abs(top[token] - logprob))
    assert worst < 0.02, entry["user"]
    return worst


def test_default_model_gives_the_expected_answers(quire, shared, default_model):
    worst = max(check_entry(quire, default_model, entry) for entry in expected(shared))
    print(f"largest difference of a log-probability: {worst:.4f}")


def test_numpy_gives_the_expected_answer_too(shared, default_model):
    """The yardstick of this file against llama.cpp, on one answer."""
    entry = min(expected(shared), key=lambda e: len(e["prompt_ids"]) + len(e["output_ids"]))
    begin = len(entry["prompt_ids"])
    logprobs = Model(default_model).logprobs(entry["prompt_ids"] + entry["output_ids"])[begin - 1 : -1]
    for position, row in zip(entry["positions"], logprobs):
        assert int(row.argmax()) == position["id"]
        for token, _, logprob in position["top5"]:
            assert abs(row[token] - logprob) < 2e-3
