"""The default model stored anew in other types answers as its own fp32 values do.

Q4_1 is written as F16 and as Q8_0 (both lose a little), then each of these once more as F32, which loses nothing: the two files of a pair
hold equal numbers, one read by the kernels of its type and one by the fp32 kernels, so their log-probabilities must agree."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import restore  # noqa: E402

TOLERANCE = 0.02


@pytest.fixture(scope="module")
def prompts(shared):
    return json.loads((shared / "expected" / "smollm2_greedy.json").read_text())["results"]


def answer(quire, model, ids, n):
    return quire.json(
        "complete", model, "--prompt-ids", ",".join(map(str, ids)), "--json", "--temperature", 0, "--logprobs", 5,
        "--max-tokens", n, "--kv-cache-dtype", "f32",
    )  # fmt: skip


def compare(a, b):
    """Equal ids as far as no two candidates lie nearer than the tolerance; log-probabilities of common candidates within it."""
    for x, y in zip(a["logprobs"], b["logprobs"]):
        best = {t["id"]: t["logprob"] for t in y["top"]}
        shared_ids = 0
        for t in x["top"]:
            if t["id"] in best:
                shared_ids += 1
                assert t["logprob"] == pytest.approx(best[t["id"]], abs=TOLERANCE)
        assert shared_ids >= 4
        if x["id"] != y["id"]:
            assert abs(x["top"][0]["logprob"] - x["top"][1]["logprob"]) < TOLERANCE
            return


@pytest.mark.parametrize("name", ["F32", "F16", "BF16", "Q8_0"])
def test_restored_model_agrees_with_its_fp32_values(quire, default_model, prompts, tmp_path, name):
    stored = tmp_path / f"{name}.gguf"
    wide = tmp_path / f"{name}.f32.gguf"
    restore.restore(default_model, stored, name)
    restore.restore(stored, wide, "F32")
    for entry in prompts:
        n = len(entry["output_ids"])
        compare(answer(quire, stored, entry["prompt_ids"], n), answer(quire, wide, entry["prompt_ids"], n))
