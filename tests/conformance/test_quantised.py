"""Quantised safetensors: FP8 with scales as Qwen and DeepSeek ship them, GPTQ and AWQ of 4 bits. A tiny model is quantised
here by the formats' own descriptions, dequantised here too, and what quire says of the quantised files is compared with
the numpy forward over the dequantised numbers."""

import json
import re
import shutil

import numpy as np
import pytest

from numpy_forward import Model, read_safetensors
from test_dequant import fp8_reference
from test_forward import PROMPT, complete

MATRICES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def save(path, tensors):
    """safetensors: names -> (dtype, array). The package has no F8 for numpy."""
    header, data = {}, b""
    for name, (dtype, x) in tensors.items():
        raw = np.ascontiguousarray(x).tobytes()
        header[name] = {"dtype": dtype, "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


E4M3 = np.array([(-1) ** (c >> 7) * ((c & 7) / 8 * 2.0**-6 if not c >> 3 & 15 else (1 + (c & 7) / 8) * 2.0 ** ((c >> 3 & 15) - 7))
                 for c in range(256)])  # fmt: skip
E4M3[[127, 255]] = np.nan


def to_e4m3(x):
    """The nearest code of each number."""
    order = np.argsort(E4M3[:127])
    levels = E4M3[:127][order]
    near = np.clip(np.searchsorted((levels[1:] + levels[:-1]) / 2, np.abs(x)), 0, 126)
    return (order[near] | np.where(x < 0, 128, 0)).astype(np.uint8)


def fp8_blocks(name, w, scale_type):
    n, m = w.shape
    size = 128
    s = np.array([[np.abs(w[i : i + size, j : j + size]).max() / 448 for j in range(0, m, size)] for i in range(0, n, size)])
    if scale_type == "BF16":
        stored = ((s.astype(np.float32).view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
        s = (stored.astype(np.uint32) << 16).view(np.float32)
    else:
        stored = s = s.astype(np.float32)
    full = np.repeat(np.repeat(s, size, 0), size, 1)[:n, :m].astype(np.float64)
    codes = to_e4m3(w / full)
    return {name + ".weight": ("F8_E4M3", codes), name + ".weight_scale_inv": (scale_type, stored)}, E4M3[codes] * full


def fp8_rows(name, w, whole):
    s = np.abs(w).max(axis=None if whole else 1, keepdims=True) / 448
    s = s.astype(np.float32).reshape(1 if whole else (-1, 1))
    codes = to_e4m3(w / s)
    out = {name + ".weight": ("F8_E4M3", codes), name + ".weight_scale": ("F32", s)}
    return out | {name + ".input_scale": ("F32", np.ones(1, np.float32))}, E4M3[codes] * s.astype(np.float64)


def four_bits(w, group, columns_to_groups):
    """codes [in, out], zeros and scales [groups, out] of w [out, in], and the numbers that they stand for."""
    n_group = max(columns_to_groups) + 1
    x = w.T
    zero, scale = np.zeros((n_group, x.shape[1]), int), np.zeros((n_group, x.shape[1]), np.float16)
    for g in range(n_group):
        part = x[columns_to_groups == g]
        lo, hi = np.minimum(part.min(0), 0), np.maximum(part.max(0), 0)
        scale[g] = (hi - lo) / 15
        zero[g] = np.clip(np.round(-lo / scale[g].astype(float)), 0, 15)
    s, z = scale.astype(np.float64)[columns_to_groups], zero[columns_to_groups]
    codes = np.clip(np.round(x / s) + z, 0, 15).astype(int)
    return codes, zero, scale, ((codes - z) * s).T


def pack(x, axis, order=range(8)):
    """8 codes a word along an axis: nibble k is element order[k] of each 8."""
    x = np.moveaxis(x.astype(np.uint32), axis, 0)
    words = sum(x[k::8] << np.uint32(4 * i) for i, k in enumerate(order))
    return np.ascontiguousarray(np.moveaxis(words, 0, axis)).view(np.int32)


def gptq(name, w, group, act_order, v2=False):
    n_in = w.shape[1]
    groups = np.arange(n_in) // (group if group > 0 else n_in)
    if act_order:
        groups = np.random.default_rng(n_in).permutation(groups)
    codes, zero, scale, numbers = four_bits(w, group, groups)
    stored = zero if v2 else (zero - 1) & 15
    if act_order:
        numbers = numbers.astype(np.float16).astype(np.float64)
    return {
        name + ".qweight": ("I32", pack(codes, 0)), name + ".qzeros": ("I32", pack(stored, 1)),
        name + ".scales": ("F16", scale), name + ".g_idx": ("I32", groups.astype(np.int32)),
    }, numbers  # fmt: skip


def awq(name, w, group):
    codes, zero, scale, numbers = four_bits(w, group, np.arange(w.shape[1]) // group)
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # AutoAWQ's order_map
    return {
        name + ".qweight": ("I32", pack(codes, 1, order)), name + ".qzeros": ("I32", pack(zero, 1, order)),
        name + ".scales": ("F16", scale),
    }, numbers  # fmt: skip


def compressed_blocks(name, w):
    tensors, numbers = fp8_blocks(name, w, "BF16")
    return {key.removesuffix("_inv"): value for key, value in tensors.items()}, numbers


FORMATS = {
    "fp8-blocks": ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
                   lambda n, w: fp8_blocks(n, w, "F32")),
    "fp8-blocks-bf16": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, lambda n, w: fp8_blocks(n, w, "BF16")),
    "fp8-tensor": ({"quant_method": "fp8", "activation_scheme": "static"}, lambda n, w: fp8_rows(n, w, True)),
    "fp8-rows": ({"quant_method": "compressed-tensors", "format": "float-quantized"}, lambda n, w: fp8_rows(n, w, False)),
    "fp8-compressed-rows": ({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {
        "group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}}}},
        lambda n, w: fp8_rows(n, w, False)),
    "fp8-compressed-tensor": ({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {
        "group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}}},
        lambda n, w: fp8_rows(n, w, True)),
    "fp8-compressed-blocks": ({"quant_method": "compressed-tensors", "format": "float-quantized", "transform_config": {}, "config_groups": {
        "group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}}}},
        lambda n, w: compressed_blocks(n, w)),
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False},
             lambda n, w: gptq(n, w, 32, False)),
    "gptq-rows": ({"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": False},
                  lambda n, w: gptq(n, w, -1, False)),
    "gptq-act-order": ({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True},
                       lambda n, w: gptq(n, w, 32, True)),
    "gptq-v2": ({"quant_method": "gptq", "bits": 4, "group_size": 64, "checkpoint_format": "gptq_v2"},
                lambda n, w: gptq(n, w, 64, False, True)),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"},
            lambda n, w: awq(n, w, 32)),
}  # fmt: skip


def quantise(source, path, kind, bias=None):
    """A copy of the directory with quantised matrices; the numpy model with the same numbers. bias: what matrices get that
    have none, as AutoGPTQ gives zeros to all."""
    config, quantiser = FORMATS[kind]
    model = Model(source)
    shutil.copytree(source, path)
    settings = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(settings | {"quantization_config": config}))
    tensors = {}
    for name, w in model.weights.items():
        stem = name.removesuffix(".weight")
        if stem.endswith(MATRICES) and name.endswith(".weight"):
            stored, model.weights[name] = quantiser(stem, w)
            tensors |= stored
            if bias is not None and stem + ".bias" not in model.weights:
                tensors[stem + ".bias"] = ("F16", np.full(len(w), bias, np.float16))
        elif name != "lm_head.weight":
            tensors[name] = ("F32", w.astype(np.float32))
    save(path / "model.safetensors", tensors)
    return model


@pytest.mark.parametrize("kind", FORMATS)
def test_quantised_directories_agree_with_numpy(quire, tmp_path, kind):
    quire.run("synth", "tiny-qwen2", tmp_path / "plain", "--dtype", "f32", "--seed", 5)
    model = quantise(tmp_path / "plain", tmp_path / "quantised", kind)
    plain = Model(tmp_path / "plain").logprobs(PROMPT)
    ids, tops = complete(quire, tmp_path / "quantised", PROMPT, 16, "--kv-cache-dtype", "f32", "--ignore-eos")
    want = model.logprobs(PROMPT + ids)[len(PROMPT) - 1 : -1]
    assert np.abs(plain[-1] - want[0]).max() > 0.01  # the quantised model is another one
    worst = max(abs(p - want[i][t]) for i, top in enumerate(tops) for t, p in top.items())
    print(f"{kind}: largest difference of a log-probability {worst:.1e}")
    assert worst < 1e-3


@pytest.mark.parametrize("kind", ["fp8-blocks", "gptq", "awq"])
def test_merged_matrices_of_phi3(quire, tmp_path, kind):
    """q, k, v of one quantised matrix are taken apart by rows."""
    quire.run("synth", "tiny-phi3", tmp_path / "plain", "--dtype", "f32", "--seed", 6)
    model = Model(tmp_path / "plain")
    config, quantiser = FORMATS[kind]
    shutil.copytree(tmp_path / "plain", tmp_path / "quantised")
    settings = json.loads((tmp_path / "plain" / "config.json").read_text())
    (tmp_path / "quantised" / "config.json").write_text(json.dumps(settings | {"quantization_config": config}))
    tensors = {}
    for name, w in read_safetensors(tmp_path / "plain" / "model.safetensors").items():
        stem = name.removesuffix(".weight")
        if stem.endswith(("qkv_proj", "o_proj", "gate_up_proj", "down_proj")):
            stored, model.weights[name] = quantiser(stem, w)
            tensors |= stored
        else:
            tensors[name] = ("F32", w.astype(np.float32))
    model._take_apart()
    save(tmp_path / "quantised" / "model.safetensors", tensors)
    ids, tops = complete(quire, tmp_path / "quantised", PROMPT, 8, "--kv-cache-dtype", "f32", "--ignore-eos")
    want = model.logprobs(PROMPT + ids)[len(PROMPT) - 1 : -1]
    assert max(abs(p - want[i][t]) for i, top in enumerate(tops) for t, p in top.items()) < 1e-3


def to_fp8(w, importance):
    blocks = w.astype(np.float32).reshape(-1, 32)
    weight = importance.astype(np.float32).reshape(-1, 32)
    n = len(weight)
    return np.stack([fp8_reference(blocks[i::n], weight[i])[2] for i in range(n)], 1).reshape(w.shape)


def norm_before(name, tied):
    """The norm in front of a matrix, by Hugging Face's names; its square says how much a column's errors count."""
    layer = name.split("self_attn.")[0].split("mlp.")[0]
    if name.split(".")[-2] in ("q_proj", "k_proj", "v_proj"):
        return layer + "input_layernorm.weight"
    if name.split(".")[-2] in ("gate_proj", "up_proj"):
        return layer + "post_attention_layernorm.weight"
    return "model.norm.weight" if name == "lm_head.weight" or (tied and "embed_tokens" in name) else None


@pytest.mark.parametrize("shape,dtype", [("tiny-qwen2", "bf16"), ("tiny-llama", "f32")])
def test_quantization_fp8(quire, tmp_path, shape, dtype):
    quire.run("synth", shape, tmp_path / "plain", "--dtype", dtype, "--seed", 5)
    model = Model(tmp_path / "plain")
    plain = model.logprobs(PROMPT)
    tied = json.loads((tmp_path / "plain" / "config.json").read_text())["tie_word_embeddings"]
    for name, w in list(model.weights.items()):
        if w.ndim == 2:
            norm = norm_before(name, tied)
            g = model.weights[norm].astype(np.float32) if norm else np.ones(w.shape[1], np.float32)
            model.weights[name] = to_fp8(w, g * g).astype(np.float64)
    args = ("--quantization", "fp8", "--device", "cpu")
    ids, tops = complete(quire, tmp_path / "plain", PROMPT, 16, "--kv-cache-dtype", "f32", "--ignore-eos", *args)
    want = model.logprobs(PROMPT + ids)[len(PROMPT) - 1 : -1]
    assert np.abs(plain[-1] - want[0]).max() > 0.01
    assert max(abs(p - want[i][t]) for i, top in enumerate(tops) for t, p in top.items()) < 1e-4
    plain, said = (quire.json("info", tmp_path / "plain", "--device", "cpu", "--json", *a)["ledger"] for a in ((), args))
    weights, before = ({line["name"]: line["bytes"] for line in ledger["lines"] if line["name"].startswith("weights")}
                       for ledger in (said, plain))  # fmt: skip
    assert set(weights) == {"weights FP8", "weights F32"}  # norms and biases
    assert sum(weights.values()) < sum(before.values())  # of the whole, blocks take what is free at the moment


def test_quantization_refuses_in_one_sentence(quire, tmp_path):
    quire.run("synth", "tiny-qwen2", tmp_path / "plain", "--dtype", "f32", "--seed", 5)
    quire.run("synth", "tiny-qwen2", tmp_path / "q.gguf", "--dtype", "q4_0")
    quantise(tmp_path / "plain", tmp_path / "fp8", "fp8-blocks")
    assert "it must be fp8 or none" in refusal(quire, tmp_path / "plain", "--quantization", "fp4")
    assert "quantised already: Q4_0" in refusal(quire, tmp_path / "q.gguf", "--quantization", "fp8")
    assert "quantised already: F8S" in refusal(quire, tmp_path / "fp8", "--quantization", "fp8")
    again = [complete(quire, tmp_path / "plain", PROMPT, 4, *a) for a in ((), ("--quantization", "none"))]
    assert again[0] == again[1]


def test_scales_in_bf16_are_held_so(quire, tmp_path):
    """A matrix whose scales bf16 holds takes half a bit less, and stays packed on a GPU."""
    quire.run("synth", "tiny-qwen2", tmp_path / "plain", "--dtype", "f32", "--seed", 5)
    for kind, name in (("fp8-blocks-bf16", "FP8"), ("fp8-blocks", "F8S")):
        quantise(tmp_path / "plain", tmp_path / kind, kind)
        types = {t["name"]: t["type"] for t in quire.json("info", tmp_path / kind, "--json")["tensors"]}
        assert types["blk.0.ffn_down.weight"] == types["blk.1.attn_q.weight"] == name


def refusal(quire, path, *options):
    done = quire.run("complete", path, "-p", "x", *options, check=False)
    assert done.returncode == 1
    message = done.stderr.decode()
    assert message.count("\n") == 1 and len(message) < 400
    return message


def test_biases_of_zeros(quire, tmp_path):
    quire.run("synth", "tiny-qwen2", tmp_path / "plain", "--dtype", "f32", "--seed", 5)
    quantise(tmp_path / "plain", tmp_path / "without", "gptq")
    quantise(tmp_path / "plain", tmp_path / "zeros", "gptq", 0)
    quantise(tmp_path / "plain", tmp_path / "ones", "gptq", 1)
    assert complete(quire, tmp_path / "zeros", PROMPT, 4) == complete(quire, tmp_path / "without", PROMPT, 4)
    assert "its config knows none such" in refusal(quire, tmp_path / "ones")


def test_broken_ones_are_refused(quire, tmp_path):
    quire.run("synth", "tiny-qwen2", tmp_path / "plain", "--dtype", "f32", "--seed", 5)
    for kind, part, word in (("gptq", "scales", "no scales"), ("awq", "qzeros", "no qzeros"),
                             ("gptq-act-order", "g_idx", "no g_idx"), ("fp8-blocks", "weight_scale_inv", "weight_scale")):  # fmt: skip
        path = tmp_path / f"{kind}-without"
        quantise(tmp_path / "plain", path, kind)
        raw = (path / "model.safetensors").read_bytes()
        n = int.from_bytes(raw[:8], "little")
        header = raw[8 : 8 + n].replace(b"k_proj." + part.encode(), b"k_proj." + part[::-1].encode())
        (path / "model.safetensors").write_bytes(raw[:8] + header + raw[8 + n :])
        message = refusal(quire, path)
        assert word in message or part[::-1] in message, message
    path = tmp_path / "liar"  # g_idx against desc_act
    quantise(tmp_path / "plain", path, "gptq-act-order")
    text = (path / "config.json").read_text().replace('"desc_act": true', '"desc_act": false')
    (path / "config.json").write_text(text)
    assert "desc_act is false" in refusal(quire, path)
    for kind, told in (("fp8-compressed-rows", "tensor"), ("fp8-compressed-tensor", "channel")):  # scales against their strategy
        path = tmp_path / f"as-{told}"
        quantise(tmp_path / "plain", path, kind)
        text = (path / "config.json").read_text()
        assert text.count('"strategy": ') == 1
        (path / "config.json").write_text(re.sub(r'("strategy": )"\w+"', rf'\1"{told}"', text))
        assert f"as strategy {told} has it" in refusal(quire, path)
    path = tmp_path / "nan"
    quantise(tmp_path / "plain", path, "fp8-rows")
    raw = bytearray((path / "model.safetensors").read_bytes())
    n = int.from_bytes(raw[:8], "little")
    at = json.loads(raw[8 : 8 + n])["model.layers.0.mlp.up_proj.weight"]["data_offsets"][0]
    raw[8 + n + at + 5] = 0x7F
    (path / "model.safetensors").write_bytes(raw)
    assert "NaN" in refusal(quire, path)
