"""A forward pass in numpy, written from the papers and from what config.json and GGUF keys mean: Llama (Touvron et al.
2023), Qwen2 (Yang et al. 2024), Qwen3 (Yang et al. 2025), with RoPE (Su et al. 2021), its linear and Llama 3.1 scaling,
grouped queries and sliding windows. It shares no code with quire: files are read through the packages safetensors and
gguf. All arithmetic is in float64.

    python numpy_forward.py MODEL 1,2,3        the five best next tokens with their log-probabilities
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import quants
from safetensors import safe_open


class Model:
    """Sizes, and weights by their Hugging Face names, q and k in Hugging Face's order (first half with second half)."""

    def __init__(self, path):
        path = Path(path)
        self.rope_factors = None
        if path.is_dir():
            self._read_directory(path)
        else:
            self._read_gguf(path)
        self.half = self.head_dim // 2

    # ------------------------------------------------------------------ Hugging Face directories

    def _read_directory(self, path):
        c = json.loads((path / "config.json").read_text())
        self.n_layer = c["num_hidden_layers"]
        self.n_head = c["num_attention_heads"]
        self.n_kv_head = c.get("num_key_value_heads") or self.n_head
        self.head_dim = c.get("head_dim") or c["hidden_size"] // self.n_head
        self.eps = c["rms_norm_eps"]
        rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
        self.theta = c.get("rope_theta") or rope.get("rope_theta", 10000.0)
        self.rope = {"kind": rope.get("rope_type") or rope.get("type") or "default", **rope}
        self.window, self.window_from = None, 0
        if c["model_type"] == "mistral":
            self.window = c.get("sliding_window")
        elif c.get("use_sliding_window"):
            self.window, self.window_from = c["sliding_window"], c["max_window_layers"]
        self.weights = {}
        for file in sorted(path.glob("*.safetensors")):
            self.weights.update(read_safetensors(file))
        if c.get("tie_word_embeddings"):
            self.weights["lm_head.weight"] = self.weights["model.embed_tokens.weight"]

    # ------------------------------------------------------------------ GGUF

    def _read_gguf(self, path):
        reader = gguf.GGUFReader(path)
        field = {name: f.contents() for name, f in reader.fields.items()}
        arch = field["general.architecture"]
        key = lambda name, absent=None: field.get(f"{arch}.{name}", absent)
        self.n_layer = key("block_count")
        self.n_head = key("attention.head_count")
        self.n_kv_head = key("attention.head_count_kv", self.n_head)
        self.head_dim = key("attention.key_length", key("embedding_length") // self.n_head)
        self.eps = key("attention.layer_norm_rms_epsilon")
        self.theta = key("rope.freq_base", 10000.0)
        self.rope = {"kind": key("rope.scaling.type", "none"), "factor": key("rope.scaling.factor")}
        self.window, self.window_from = key("attention.sliding_window"), 0
        tensors = {
            t.name: quants.dequantize(t.data, t.tensor_type).astype(np.float64).reshape(t.shape[::-1])
            for t in reader.tensors
        }
        self.rope_factors = tensors.pop("rope_freqs.weight", None)
        kind = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3}[arch]
        stem = {
            "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
            "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
            "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
        }  # fmt: skip
        self.weights = {}
        for name, w in tensors.items():
            *layer, last, suffix = name.split(".")
            if kind == gguf.MODEL_ARCH.LLAMA and last in ("attn_q", "attn_k"):
                w = unpermute(w, self.n_head if last == "attn_q" else self.n_kv_head)
            prefix = f"model.layers.{layer[1]}." if layer else ""
            self.weights[f"{prefix}{stem[last]}.{suffix}"] = w
        self.weights.setdefault("lm_head.weight", self.weights["model.embed_tokens.weight"])

    # ------------------------------------------------------------------ the forward pass

    def linear(self, x, name):
        y = x @ self.weights[name + ".weight"].T
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * self.weights[name + ".weight"]

    def frequencies(self):
        f = self.theta ** (-np.arange(self.half) / self.half)
        if self.rope["kind"] == "linear":
            f = f / self.rope["factor"]
        if self.rope["kind"] == "llama3":
            factor, low, high = (self.rope[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
            context = self.rope["original_max_position_embeddings"]
            wavelength = 2 * np.pi / f
            smooth = np.clip((context / wavelength - low) / (high - low), 0, 1)
            f = (1 - smooth) * f / factor + smooth * f
        return f if self.rope_factors is None else f / self.rope_factors.reshape(-1)

    def rotate(self, x):
        """x [T, heads, head_dim]"""
        angle = np.arange(len(x))[:, None, None] * self.frequencies()
        a, b = x[..., : self.half], x[..., self.half :]
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def attention(self, h, layer):
        name, t = f"model.layers.{layer}.self_attn.", len(h)
        q = self.linear(h, name + "q_proj").reshape(t, self.n_head, self.head_dim)
        k = self.linear(h, name + "k_proj").reshape(t, self.n_kv_head, self.head_dim)
        v = self.linear(h, name + "v_proj").reshape(t, self.n_kv_head, self.head_dim)
        if name + "q_norm.weight" in self.weights:
            q, k = self.norm(q, name + "q_norm"), self.norm(k, name + "k_norm")
        group = self.n_head // self.n_kv_head
        q, k, v = self.rotate(q), np.repeat(self.rotate(k), group, axis=1), np.repeat(v, group, axis=1)
        score = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(self.head_dim)
        back = np.arange(t)[:, None] - np.arange(t)[None, :]
        hidden = back < 0
        if self.window and layer >= self.window_from:
            hidden |= back >= self.window
        score = np.where(hidden, -np.inf, score)
        p = np.exp(score - score.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        return self.linear(np.einsum("hqk,khd->qhd", p, v).reshape(t, -1), name + "o_proj")

    def mlp(self, h, layer):
        name = f"model.layers.{layer}.mlp."
        gate, up = self.linear(h, name + "gate_proj"), self.linear(h, name + "up_proj")
        return self.linear(gate / (1 + np.exp(-gate)) * up, name + "down_proj")

    def logits(self, ids):
        """[T, vocabulary], of every position."""
        x = self.weights["model.embed_tokens.weight"][np.asarray(ids)]
        for i in range(self.n_layer):
            x = x + self.attention(self.norm(x, f"model.layers.{i}.input_layernorm"), i)
            x = x + self.mlp(self.norm(x, f"model.layers.{i}.post_attention_layernorm"), i)
        return self.linear(self.norm(x, "model.norm"), "lm_head")

    def logprobs(self, ids):
        y = self.logits(ids)
        y = y - y.max(axis=-1, keepdims=True)
        return y - np.log(np.exp(y).sum(axis=-1, keepdims=True))


def read_safetensors(path):
    """name -> float64. numpy has no bf16, so the bytes are taken from where the header says."""
    with safe_open(path, "np") as f:
        names = list(f.keys())
    raw = path.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    header, out = json.loads(raw[8 : 8 + n]), {}
    for name in names:
        begin, end = header[name]["data_offsets"]
        data = raw[8 + n + begin : 8 + n + end]
        if header[name]["dtype"] == "BF16":
            x = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(data, {"F32": np.float32, "F16": np.float16}[header[name]["dtype"]])
        out[name] = x.astype(np.float64).reshape(header[name]["shape"])
    return out


def unpermute(w, n_head):
    """Rows of each head from pairs side by side (llama.cpp's order for arch llama) to first half, second half."""
    return w.reshape(n_head, w.shape[0] // n_head // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


if __name__ == "__main__":
    last = Model(sys.argv[1]).logprobs([int(i) for i in sys.argv[2].split(",")])[-1]
    for token in np.argsort(-last)[:5]:
        print(token, f"{last[token]:.6f}")
