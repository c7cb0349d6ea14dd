"""Families as their files spell them: models that see with their text part inside, configs of transformers 5, and families
that quire does not know."""

import json
import shutil

import numpy as np
import pytest

from numpy_forward import Model, read_safetensors
from test_forward import PROMPT, complete
from test_quantised import save


@pytest.fixture(scope="module")
def gemma3(quire, tmp_path_factory):
    path = tmp_path_factory.mktemp("families") / "gemma3"
    quire.run("synth", "tiny-gemma3", path, "--dtype", "f32", "--seed", 8)
    return path


def answers(quire, path):
    return complete(quire, path, PROMPT, 8, "--kv-cache-dtype", "f32", "--ignore-eos")


@pytest.mark.parametrize("front", ["language_model.model.", "model.language_model."])
def test_the_text_part_of_a_model_that_sees(quire, gemma3, tmp_path, front):
    path = tmp_path / "sees"
    shutil.copytree(gemma3, path)
    config = json.loads((path / "config.json").read_text())
    outside = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "vision_config": {"layers": 2},
               "eos_token_id": config.pop("eos_token_id"), "text_config": config}  # fmt: skip
    (path / "config.json").write_text(json.dumps(outside))
    tensors = {front + name.removeprefix("model."): ("F32", w.astype(np.float32))
               for name, w in read_safetensors(gemma3 / "model.safetensors").items()}  # fmt: skip
    for name in ("vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", "multi_modal_projector.mm_soft_emb_norm.weight"):
        tensors[("model." if front.startswith("model.") else "") + name] = ("F32", np.ones((3, 3), np.float32))
    save(path / "model.safetensors", tensors)
    assert answers(quire, path) == answers(quire, gemma3)


def test_the_config_of_transformers_5(quire, gemma3, tmp_path):
    path = tmp_path / "newer"
    shutil.copytree(gemma3, path)
    config = json.loads((path / "config.json").read_text())
    n, every = config["num_hidden_layers"], config.pop("sliding_window_pattern")
    config["layer_types"] = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(n)]
    config["rope_parameters"] = {
        "full_attention": config.pop("rope_scaling") | {"rope_theta": config.pop("rope_theta")},
        "sliding_attention": {"rope_type": "default", "rope_theta": config.pop("rope_local_base_freq")},
    }
    (path / "config.json").write_text(json.dumps(config))
    assert answers(quire, path) == answers(quire, gemma3)


@pytest.mark.parametrize("shape", ["tiny-gemma2", "tiny-gemma3", "tiny-phi3"])
@pytest.mark.parametrize("dtype", ["q8_0", "q4_1"])
def test_quantised_gguf_files(quire, tmp_path, shape, dtype):
    quire.run("synth", shape, tmp_path / "m.gguf", "--dtype", dtype, "--seed", 3)
    ids, tops = answers(quire, tmp_path / "m.gguf")
    want = Model(tmp_path / "m.gguf").logprobs(PROMPT + ids)[len(PROMPT) - 1 : -1]
    worst = max(abs(p - want[i][t]) for i, top in enumerate(tops) for t, p in top.items())
    print(f"{shape} {dtype}: largest difference of a log-probability {worst:.1e}")
    assert worst < 2e-3


def test_others_are_named_together_with_those_that_are_known(quire, gemma3, tmp_path):
    path = tmp_path / "other"
    shutil.copytree(gemma3, path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"architectures": ["CohereForCausalLM"], "model_type": "cohere"}))
    done = quire.run("info", path, check=False)
    message = done.stderr.decode()
    assert done.returncode == 1 and message.count("\n") == 1 and len(message) < 400
    assert all(word in message for word in ("CohereForCausalLM", "Llama", "Mistral", "Qwen2", "Qwen3", "Gemma2", "Gemma3", "Phi3"))
