"""Rope scalings in both spellings of config.json and as GGUF keys and tensors, through the whole model: what quire says
against the numpy forward, whose formulas are transformers' (modeling_rope_utils.py) and the papers'."""

import json
import shutil

import gguf
import numpy as np
import pytest

from numpy_forward import Model
from test_forward import PROMPT, complete

LONG = list(np.linspace(1.5, 9, 8))
SHORT = list(np.linspace(1, 1.4, 8))
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512},
    "yarn-beta": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 256, "beta_fast": 16, "beta_slow": 2},
    "yarn-mscale": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "mscale": 0.707,
                    "mscale_all_dim": 1.0, "truncate": False},
    "yarn-attention": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.3},
    "longrope": {"rope_type": "longrope", "long_factor": LONG, "short_factor": SHORT, "original_max_position_embeddings": 512},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 256},
    "mrope": {"rope_type": "mrope", "mrope_section": [2, 3, 3]},
    "default": {"rope_type": "default"},
}  # fmt: skip


@pytest.fixture(scope="module")
def plain(quire, tmp_path_factory):
    path = tmp_path_factory.mktemp("rope") / "plain"
    quire.run("synth", "tiny-llama", path, "--dtype", "f32", "--seed", 4)
    return path


def agrees(quire, path, model, *options):
    ids, tops = complete(quire, path, PROMPT * 3, 8, "--kv-cache-dtype", "f32", "--ignore-eos", *options)
    want = model.logprobs(PROMPT * 3 + ids)[3 * len(PROMPT) - 1 : -1]
    return max(abs(p - want[i][t]) for i, top in enumerate(tops) for t, p in top.items())


@pytest.mark.parametrize("spelling", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("kind", SCALINGS)
def test_config_json(quire, plain, tmp_path, kind, spelling):
    path = tmp_path / "model"
    shutil.copytree(plain, path)
    config = json.loads((path / "config.json").read_text())
    if spelling == "rope_parameters":
        config.pop("rope_scaling", None)
        config["rope_parameters"] = SCALINGS[kind] | {"rope_theta": config.pop("rope_theta")}
    else:
        config["rope_scaling"] = SCALINGS[kind]
    (path / "config.json").write_text(json.dumps(config))
    worst = agrees(quire, path, Model(path))
    print(f"{kind}, {spelling}: largest difference of a log-probability {worst:.1e}")
    assert worst < 1e-4
    info = quire.json("info", path, "--json")["config"]
    assert info["rope"] == {"mrope": "default"}.get(kind, SCALINGS[kind]["rope_type"])
    assert f"theta {info['rope_theta']:g}" in quire.text("info", path)
    if kind not in ("dynamic", "mrope", "default"):
        assert agrees(quire, path, Model(plain)) > 1e-2  # the scaling tells


def test_longrope_takes_short_factors_for_short_contexts(quire, plain, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(plain, path)
    config = json.loads((path / "config.json").read_text())
    old = {"type": "su", "long_factor": LONG, "short_factor": SHORT}  # as Phi-3's first files say it
    (path / "config.json").write_text(json.dumps(config | {"rope_scaling": old, "original_max_position_embeddings": 512}))
    model = Model(path)
    assert agrees(quire, path, model) < 1e-4
    model.context = 512
    assert agrees(quire, path, model, "--max-model-len", 512) < 1e-4
    assert agrees(quire, path, model) > 1e-2


def rewrite(source, path, keys, tensors, arch="llama", turned=None):
    """A GGUF file with some keys and tensors more. turned: rope.dimension_count."""
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(str(path), arch)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        if turned and field.name == f"{arch}.rope.dimension_count":
            writer.add_uint32(field.name, turned)
            continue
        sub = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub)
    for name, value in keys.items():
        add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}[type(value)]
        add(f"{arch}.rope.scaling.{name}", value)
    for t in reader.tensors:
        writer.add_tensor(t.name, t.data)
    for name, x in tensors.items():
        writer.add_tensor(name, np.array(x, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf(quire, plain, tmp_path):
    source = tmp_path / "plain.gguf"
    quire.run("synth", "tiny-llama", source, "--dtype", "f32", "--seed", 4)
    cases = {
        "linear": ({"type": "linear", "factor": 3.0}, {}, SCALINGS["linear"]),
        "yarn": ({"type": "yarn", "factor": 4.0, "original_context_length": 512}, {}, SCALINGS["yarn"]),
        "longrope": ({"attn_factor": 1.25, "original_context_length": 512},
                     {"rope_factors_long.weight": LONG, "rope_factors_short.weight": SHORT},
                     SCALINGS["longrope"] | {"attention_factor": 1.25}),
        "factors": ({}, {"rope_freqs.weight": LONG},  # as Llama 3.1's files have them
                    SCALINGS["longrope"] | {"short_factor": LONG, "attention_factor": 1.0}),
    }  # fmt: skip
    for kind, (keys, tensors, meaning) in cases.items():
        path = tmp_path / f"{kind}.gguf"
        rewrite(source, path, keys, tensors)
        model = Model(plain)
        model.rope = {"kind": meaning["rope_type"], **meaning}
        assert agrees(quire, path, model) < 1e-4, kind
        assert quire.json("info", path, "--json")["config"]["rope_theta"] == 10000  # headers alone, without the factors


# Phi-4-mini turns three quarters of a head
PARTS = {
    "plain": {"rope_type": "default"},
    "yarn": SCALINGS["yarn"],
    "longrope": {"rope_type": "longrope", "long_factor": LONG[:6], "short_factor": SHORT[:6], "original_max_position_embeddings": 512},
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_of_the_head(quire, tmp_path, kind):
    path = tmp_path / "phi"
    quire.run("synth", "tiny-phi3", path, "--dtype", "f32", "--seed", 4)
    whole, config = Model(path), json.loads((path / "config.json").read_text())
    for spelling in ("rope_scaling", "rope_parameters"):
        config.pop("rope_scaling", None)
        part = {"partial_rotary_factor": 0.75}
        within = part if spelling == "rope_parameters" else {}
        new = config | {spelling: PARTS[kind] | within} | ({} if within else part)
        (path / "config.json").write_text(json.dumps(new))
        model = Model(path)
        assert model.rope_dim == 12 and (kind == "plain" or model.rope_scale() > 1.1)
        worst = agrees(quire, path, model)
        print(f"{kind}, {spelling}: largest difference of a log-probability {worst:.1e}")
        assert worst < 1e-4
        assert agrees(quire, path, whole) > 1e-2


def test_a_part_of_the_head_in_gguf(quire, tmp_path):
    source, path = tmp_path / "whole.gguf", tmp_path / "part.gguf"
    quire.run("synth", "tiny-phi3", source, "--dtype", "f32", "--seed", 4)
    factors = {"rope_factors_long.weight": LONG[:6], "rope_factors_short.weight": SHORT[:6]}
    rewrite(source, path, {"attn_factor": 1.25, "original_context_length": 512}, factors, "phi3", 12)
    reader = gguf.GGUFReader(path)
    model = Model(source)
    model.rope_dim, model.half = reader.fields["phi3.rope.dimension_count"].contents(), 6
    model.rope = {"kind": "longrope", **PARTS["longrope"], "attention_factor": 1.25}
    assert agrees(quire, path, model) < 1e-4
    for turned, word in ((10, b"rows of 5"), (11, b"pairs"), (18, b"18"), (0, b"is 0")):
        rewrite(source, path, {"attn_factor": 1.25, "original_context_length": 512}, factors, "phi3", turned or 1)
        if not turned:
            raw = path.read_bytes()
            at = raw.index(b"phi3.rope.dimension_count") + len("phi3.rope.dimension_count") + 4
            path.write_bytes(raw[:at] + bytes(4) + raw[at + 4 :])
        done = quire.run("info", path, check=False)
        assert done.returncode == 1 and word in done.stderr and done.stderr.count(b"\n") == 1, (turned, done.stderr)


def test_unknown_types_are_named(quire, plain, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(plain, path)
    config = json.loads((path / "config.json").read_text())
    for scaling, word in (({"rope_type": "spiral"}, "spiral"), ({"rope_type": "yarn"}, "factor"),
                          ({"rope_type": "longrope", "long_factor": [1.0], "short_factor": SHORT}, "factor"),
                          ({"rope_type": "longrope", "long_factor": [0.0] * 8, "short_factor": SHORT}, "long_factor")):  # fmt: skip
        (path / "config.json").write_text(json.dumps(config | {"rope_scaling": scaling}))
        done = quire.run("info", path, check=False)
        assert done.returncode == 1 and word in done.stderr.decode() and done.stderr.decode().count("\n") == 1
