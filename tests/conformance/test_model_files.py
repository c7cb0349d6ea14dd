"""Model files written by other programs - gguf-py and the safetensors package - as quire reads them, and broken
ones through the command line: exit 1, one sentence."""

import json
import struct

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

N_LAYER, N_EMBD, N_HEAD, N_KV_HEAD, HEAD_DIM, N_FF, N_VOCAB = 2, 256, 4, 2, 64, 512, 300


def tensors_of(arch):
    """Canonical name -> shape."""
    shapes = {"token_embd.weight": (N_VOCAB, N_EMBD), "output_norm.weight": (N_EMBD,)}
    for i in range(N_LAYER):
        blk = f"blk.{i}."
        shapes |= {
            blk + "attn_norm.weight": (N_EMBD,),
            blk + "attn_q.weight": (N_HEAD * HEAD_DIM, N_EMBD),
            blk + "attn_k.weight": (N_KV_HEAD * HEAD_DIM, N_EMBD),
            blk + "attn_v.weight": (N_KV_HEAD * HEAD_DIM, N_EMBD),
            blk + "attn_output.weight": (N_EMBD, N_HEAD * HEAD_DIM),
            blk + "ffn_norm.weight": (N_EMBD,),
            blk + "ffn_gate.weight": (N_FF, N_EMBD),
            blk + "ffn_up.weight": (N_FF, N_EMBD),
            blk + "ffn_down.weight": (N_EMBD, N_FF),
        }
        if arch == "qwen2":
            shapes |= {
                blk + "attn_q.bias": (N_HEAD * HEAD_DIM,),
                blk + "attn_k.bias": (N_KV_HEAD * HEAD_DIM,),
                blk + "attn_v.bias": (N_KV_HEAD * HEAD_DIM,),
            }
        if arch == "qwen3":
            shapes |= {blk + "attn_q_norm.weight": (HEAD_DIM,), blk + "attn_k_norm.weight": (HEAD_DIM,)}
    return shapes


TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS",
         "MXFP4"]


def write_gguf(path, arch, types, alignment=None, **writer_options):
    """Matrices take the types in turn; the data are zeros of the right size."""
    writer = gguf.GGUFWriter(path, arch, **writer_options)
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_name("from gguf-py")
    writer.add_block_count(N_LAYER)
    writer.add_context_length(1024)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEAD)
    writer.add_head_count_kv(N_KV_HEAD)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(250000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"<{i}>" for i in range(N_VOCAB)])
    writer.add_eos_token_id(7)
    writer.add_bos_token_id(5)
    expected = {}
    for i, (name, shape) in enumerate(tensors_of(arch).items()):
        kind = getattr(gguf.GGMLQuantizationType, types[i % len(types)] if len(shape) == 2 else "F32")
        block, size = gguf.GGML_QUANT_SIZES[kind]
        row = shape[-1] // block * size
        data = np.zeros(shape[:-1] + (row,), dtype=np.uint8)
        if kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, np.zeros(shape, dtype=np.float32))
        else:
            writer.add_tensor(name, data, raw_dtype=kind)
        n_row = shape[0] if len(shape) == 2 else 1
        expected[name] = (kind.name, [n_row, shape[-1]], n_row * row)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def listed(info):
    return {t["name"]: (t["type"], t["shape"], t["bytes"]) for t in info["tensors"]}


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("alignment", [None, 64, 4096])
def test_gguf_of_gguf_py(quire, tmp_path, arch, alignment):
    path = tmp_path / "m.gguf"
    expected = write_gguf(path, arch, TYPES, alignment)
    info = quire.json("info", path, "--json")
    assert listed(info) == expected
    config = info["config"]
    assert config["name"] == "from gguf-py"
    assert config["arch"] == arch
    sizes = [config[k] for k in ("n_layer", "n_embd", "n_head", "n_kv_head", "head_dim", "n_ff", "n_vocab")]
    assert sizes == [N_LAYER, N_EMBD, N_HEAD, N_KV_HEAD, HEAD_DIM, N_FF, N_VOCAB]
    assert config["rope_theta"] == 250000
    assert config["norm_eps"] == float(np.float32(1e-5))
    assert config["bos"] == 5 and config["eos"] == [7]
    assert config["tie_embd"] is True
    assert config["qkv_bias"] is (arch == "qwen2") and config["qk_norm"] is (arch == "qwen3")


def test_big_endian_gguf(quire, tmp_path):
    path = tmp_path / "big.gguf"
    write_gguf(path, "llama", ["F32"], endianess=gguf.GGUFEndian.BIG)
    assert_refused(quire, path, "big endian")


HF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def hf_name(name):
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{HF_NAMES[parts[2]]}.{parts[3]}"
    return f"{HF_NAMES[parts[0]]}.{parts[1]}"


def write_hf(directory, arch, dtype, shards):
    directory.mkdir()
    class_name = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}[arch]
    config = {
        "architectures": [class_name],
        "model_type": arch,
        "hidden_size": N_EMBD,
        "intermediate_size": N_FF,
        "num_hidden_layers": N_LAYER,
        "num_attention_heads": N_HEAD,
        "num_key_value_heads": N_KV_HEAD,
        "head_dim": HEAD_DIM,
        "vocab_size": N_VOCAB,
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-5,
        "rope_theta": 250000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "eos_token_id": 7,
        "bos_token_id": None,
    }
    (directory / "config.json").write_text(json.dumps(config))
    arrays = {hf_name(n): np.zeros(s, dtype=dtype) for n, s in tensors_of(arch).items()}
    if shards == 1:
        save_file(arrays, directory / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for k in range(shards):
        file = f"model-{k + 1:05}-of-{shards:05}.safetensors"
        part = {n: a for i, (n, a) in enumerate(arrays.items()) if i % shards == k}
        save_file(part, directory / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("dtype, name", [(np.float32, "F32"), (np.float16, "F16")])
def test_directory_of_safetensors(quire, tmp_path, arch, shards, dtype, name):
    write_hf(tmp_path / "m", arch, dtype, shards)
    info = quire.json("info", tmp_path / "m", "--json")
    size = np.dtype(dtype).itemsize
    expected = {
        n: (name, [s[0], s[1]] if len(s) == 2 else [1, s[0]], int(np.prod(s)) * size)
        for n, s in tensors_of(arch).items()
    }
    assert listed(info) == expected
    assert info["config"]["arch"] == arch
    assert info["config"]["n_ff"] == N_FF and info["config"]["eos"] == [7] and info["config"]["bos"] == -1


def assert_refused(quire, path, says):
    done = quire.run("info", path, check=False)
    message = done.stderr.decode()
    assert done.returncode == 1, message
    assert done.stdout == b""
    assert says in message
    assert len(message.strip().splitlines()) == 1, message


def broken(data, what):
    """A right GGUF made wrong: (bytes, words of the message)."""
    head = bytearray(data)
    if what == "truncated":
        return data[:1000], "bytes follow"
    if what == "half":
        return data[: len(data) // 2], "cut off"
    if what == "keys":
        head[16:24] = struct.pack("<Q", 2**64 - 1)
        return bytes(head), "18446744073709551615 keys"
    if what == "tensors":
        head[8:16] = struct.pack("<Q", 2**64 - 1)
        return bytes(head), "18446744073709551615 tensors"
    if what == "string":
        head[24:32] = struct.pack("<Q", 2**63)
        return bytes(head), "cut off"
    if what == "magic":
        return b"GGJT" + data[4:], "no GGUF file"
    if what == "version":
        head[4:8] = struct.pack("<I", 9)
        return bytes(head), "version 9"
    return b"", "cut off"


@pytest.mark.parametrize("what", ["truncated", "half", "keys", "tensors", "string", "magic", "version", "empty"])
def test_broken_gguf(quire, tmp_path, what):
    path = tmp_path / "m.gguf"
    write_gguf(path, "llama", ["F32"])
    data, says = broken(path.read_bytes(), what)
    path.write_bytes(data)
    assert_refused(quire, path, says)


@pytest.mark.parametrize(
    "key, value, says",
    [
        ("num_attention_heads", 0, "num_attention_heads"),
        ("num_attention_heads", -4, "num_attention_heads"),
        ("num_key_value_heads", 3, "cannot be divided"),
        ("hidden_size", 2**31, "hidden_size"),
        ("head_dim", 63, "must be even"),
        ("rms_norm_eps", float("nan"), "bad JSON"),
        ("architectures", ["MambaForCausalLM"], "MambaForCausalLM"),
        ("quantization_config", {"quant_method": "quip"}, "quip"),
    ],
)
def test_broken_config(quire, tmp_path, key, value, says):
    write_hf(tmp_path / "m", "llama", np.float32, 1)
    path = tmp_path / "m" / "config.json"
    config = json.loads(path.read_text())
    config[key] = value
    path.write_text(json.dumps(config))
    assert_refused(quire, tmp_path / "m", says)
