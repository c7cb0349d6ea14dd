"""Models whose matrices have different types, as real GGUF files have them: q, k, v of one layer, or gate and up, are
stored in one block of several types and run by one merged LINEAR. Blocks of every type that quire reads, K-quants too,
are made here; numpy_forward.py reads them through the package gguf."""

import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

sys.path.insert(0, str(Path(__file__).parent))
from numpy_forward import Model  # noqa: E402
from test_forward import PROMPT, complete  # noqa: E402

TYPES = [
    Type.Q4_K, Type.Q6_K, Type.Q8_0, Type.Q5_K, Type.F16, Type.Q5_0, Type.Q4_0, Type.Q5_1, Type.BF16, Type.Q4_1,
    Type.F32, Type.Q2_K, Type.IQ4_XS, Type.Q3_K, Type.IQ4_NL, Type.MXFP4,
]  # fmt: skip
EMBD, HEADS, KV_HEADS, HEAD_DIM, FF, LAYERS = 256, 4, 2, 64, 512, 4  # K-quants have blocks of 256


def f16_bytes(rng, n, middle):
    """[n, 2]: scales around a value, as bytes."""
    return (middle * rng.uniform(0.5, 1.5, n)).astype(np.float16).view(np.uint8).reshape(n, 2)


def k_quant(rng, kind, n_row, n_col):
    """Rows of random blocks with numbers of deviation 1/sqrt(n_col), give or take. Layouts: ggml-common.h."""
    n, deviation = n_row * n_col // 256, n_col**-0.5
    noise = lambda size: rng.integers(0, 256, (n, size), dtype=np.uint8)
    if kind == Type.Q6_K:  # ql, qh, scales of 8 bits, d: values d * scale * (q - 32)
        block = [noise(128), noise(64), noise(16), f16_bytes(rng, n, deviation / 1370)]
    else:  # d, dmin, scales of 6 bits, (qh,) qs: values d * scale * q - dmin * min, here with mean near 0
        steps = 16 if kind == Type.Q4_K else 32
        d = deviation / (13 * steps)
        block = [f16_bytes(rng, n, d), f16_bytes(rng, n, d * (steps - 1) / 2), noise(12)]
        block += [noise(128)] if kind == Type.Q4_K else [noise(32), noise(128)]
    return np.concatenate(block, axis=1).reshape(n_row, -1)


def low_bit(rng, kind, n_row, n_col):
    """As k_quant, for types that gguf-py reads only."""
    n, deviation = n_row * n_col // gguf.GGML_QUANT_SIZES[kind][0], n_col**-0.5
    noise = lambda size: rng.integers(0, 256, (n, size), dtype=np.uint8)
    if kind == Type.Q2_K:  # scales and mins of 4 bits, qs, d, dmin: d * scale * q - dmin * min
        block = [noise(16), noise(64), f16_bytes(rng, n, deviation / 14), f16_bytes(rng, n, deviation / 9)]
    elif kind == Type.Q3_K:  # hmask, qs, scales of 6 bits, d: d * (scale - 32) * (q - 4)
        block = [noise(32), noise(64), noise(12), f16_bytes(rng, n, deviation / 42)]
    elif kind == Type.IQ4_XS:  # d, scales of 6 bits, codes: d * (scale - 32) * level
        block = [f16_bytes(rng, n, deviation / 1200), noise(6), noise(128)]
    else:  # IQ4_NL: d, codes: d * level
        block = [f16_bytes(rng, n, deviation / 65), noise(16)]
    return np.concatenate(block, axis=1).reshape(n_row, -1)


def matrix(rng, kind, n_row, n_col):
    if kind in (Type.Q4_K, Type.Q5_K, Type.Q6_K):
        return k_quant(rng, kind, n_row, n_col)
    if kind in (Type.Q2_K, Type.Q3_K, Type.IQ4_XS, Type.IQ4_NL):
        return low_bit(rng, kind, n_row, n_col)
    values = rng.normal(0, n_col**-0.5, (n_row, n_col)).astype(np.float32)
    return values if kind == Type.F32 else gguf.quants.quantize(values, kind)


def write_model(path, like, arch, shift):
    """Keys and tokenizer of the tiny model `like`; the i-th matrix has type i + shift."""
    sizes = {
        "block_count": LAYERS, "embedding_length": EMBD, "feed_forward_length": FF, "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM,
        "rope.dimension_count": HEAD_DIM,
    }  # fmt: skip
    reader, writer, rng = gguf.GGUFReader(like), gguf.GGUFWriter(str(path), arch), np.random.default_rng(shift)
    for field in reader.fields.values():
        own = field.name.removeprefix(arch + ".") in sizes
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type") or own:
            continue
        sub = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub)
    for name, value in sizes.items():
        writer.add_uint32(f"{arch}.{name}", value)
    vocab = len(reader.fields["tokenizer.ggml.tokens"].contents())
    q, kv, count = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, shift

    def put(name, n_row, n_col):
        nonlocal count
        kind = TYPES[count % len(TYPES)]
        count += 1
        data = matrix(rng, kind, n_row, n_col)
        if kind == Type.F16:
            data = data.view(np.float16)
        writer.add_tensor(name, data, raw_dtype=None if kind in (Type.F32, Type.F16) else kind)

    def put_vector(name, n, mean=0.0):
        writer.add_tensor(name, (mean + rng.normal(0, 0.2, n)).astype(np.float32))

    put("token_embd.weight", vocab, EMBD)
    for i in range(LAYERS):
        layer = f"blk.{i}."
        put_vector(layer + "attn_norm.weight", EMBD, 1)
        for part, n_row in (("attn_q", q), ("attn_k", kv), ("attn_v", kv)):
            put(f"{layer}{part}.weight", n_row, EMBD)
            if arch == "qwen2":
                put_vector(f"{layer}{part}.bias", n_row)
        put(layer + "attn_output.weight", EMBD, q)
        put_vector(layer + "ffn_norm.weight", EMBD, 1)
        put(layer + "ffn_gate.weight", FF, EMBD)
        put(layer + "ffn_up.weight", FF, EMBD)
        put(layer + "ffn_down.weight", EMBD, FF)
    put_vector("output_norm.weight", EMBD, 1)
    put("output.weight", vocab, EMBD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("arch", ["llama", "qwen2"])
@pytest.mark.parametrize("shift", [0, 3, 6, 9, 11, 13])
def test_mixed_types_agree_with_numpy(quire, tmp_path, arch, shift):
    like, path = tmp_path / "like.gguf", tmp_path / "mixed.gguf"
    quire.run("synth", f"tiny-{arch}", like, "--dtype", "f32")
    write_model(path, like, arch, shift)
    assert "+" in quire.text("plan", path)  # merged of several types
    results = {}
    for fuse in ("all", "none"):
        ids, tops = complete(quire, path, PROMPT, 16, "--kv-cache-dtype", "f32", "--ignore-eos", "--fuse", fuse)
        results[fuse] = ids
        want = Model(path).logprobs(PROMPT + ids)[len(PROMPT) - 1 : -1]
        for position, top in enumerate(tops):
            for token, logprob in top.items():
                assert abs(logprob - want[position][token]) < 2e-3, f"{fuse}, position {position}, token {token}"
    assert results["all"] == results["none"]
