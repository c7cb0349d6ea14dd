"""A forward pass in numpy, written from the papers and from what config.json and GGUF keys mean: Llama (Touvron et al.
2023), Qwen2 (Yang et al. 2024), Qwen3 (Yang et al. 2025), Gemma 2 (2024) and 3 (2025), Phi-3 (Abdin et al. 2024), with RoPE
(Su et al. 2021) and its scalings as transformers' modeling_rope_utils.py documents them, grouped queries and sliding windows. It shares no code with quire: files are read through the packages safetensors and
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
        self.half = self.rope_dim // 2
        if self.family == "phi3":
            self._take_apart()
        if "gemma" in self.family:
            self.embd_scale = np.sqrt(self.weights["model.norm.weight"].size)

    def _defaults(self):
        self.attn_scale, self.attn_cap, self.final_cap, self.embd_scale = None, None, None, 1
        self.local_theta, self.full_every = None, None

    def _take_apart(self):
        """Phi-3 keeps q, k, v in one matrix, and gate, up in another."""
        for i in range(self.n_layer):
            layer = f"model.layers.{i}."
            q, kv = self.n_head * self.head_dim, self.n_kv_head * self.head_dim
            qkv = self.weights.pop(layer + "self_attn.qkv_proj.weight")
            for name, w in zip("qkv", np.split(qkv, [q, q + kv])):
                self.weights[f"{layer}self_attn.{name}_proj.weight"] = w
            gate_up = self.weights.pop(layer + "mlp.gate_up_proj.weight")
            for name, w in zip(("gate", "up"), np.split(gate_up, 2)):
                self.weights[f"{layer}mlp.{name}_proj.weight"] = w

    # ------------------------------------------------------------------ Hugging Face directories

    def _read_directory(self, path):
        c = json.loads((path / "config.json").read_text())
        self._defaults()
        self.family = c["model_type"]
        self.max_len = c["max_position_embeddings"]
        self.n_layer = c["num_hidden_layers"]
        self.n_head = c["num_attention_heads"]
        self.n_kv_head = c.get("num_key_value_heads") or self.n_head
        self.head_dim = c.get("head_dim") or c["hidden_size"] // self.n_head
        self.eps = c["rms_norm_eps"]
        rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
        self.rope_dim = int(self.head_dim * (rope.get("partial_rotary_factor") or c.get("partial_rotary_factor", 1)))
        self.theta = c.get("rope_theta") or rope.get("rope_theta", 10000.0)
        self.rope = {"kind": rope.get("rope_type") or rope.get("type") or "default", **rope}
        self.rope.setdefault("original_max_position_embeddings", c.get("original_max_position_embeddings", self.max_len))
        self.window, self.window_from = None, 0
        if c["model_type"] in ("mistral", "phi3") or "gemma" in c["model_type"]:
            self.window = c.get("sliding_window")
        elif c.get("use_sliding_window"):
            self.window, self.window_from = c["sliding_window"], c["max_window_layers"]
        self.weights = {}
        for file in sorted(path.glob("*.safetensors")):
            self.weights.update(read_safetensors(file))
        if c.get("tie_word_embeddings"):
            self.weights["lm_head.weight"] = self.weights["model.embed_tokens.weight"]
        if "gemma" not in self.family:
            return
        self.attn_scale = c["query_pre_attn_scalar"] ** -0.5
        self.attn_cap, self.final_cap = c["attn_logit_softcapping"], c["final_logit_softcapping"]
        self.full_every = 2 if self.family == "gemma2" else c["sliding_window_pattern"]
        self.local_theta = c.get("rope_local_base_freq")
        for name in self.weights:
            if "norm" in name:
                self.weights[name] = self.weights[name] + 1  # files hold w of (1 + w)

    # ------------------------------------------------------------------ GGUF

    def _read_gguf(self, path):
        reader = gguf.GGUFReader(path)
        field = {name: f.contents() for name, f in reader.fields.items()}
        arch = field["general.architecture"]
        key = lambda name, absent=None: field.get(f"{arch}.{name}", absent)
        self._defaults()
        self.family = arch
        self.max_len = key("context_length")
        self.n_layer = key("block_count")
        self.n_head = key("attention.head_count")
        self.n_kv_head = key("attention.head_count_kv", self.n_head)
        self.head_dim = key("attention.key_length", key("embedding_length") // self.n_head)
        self.rope_dim = key("rope.dimension_count", self.head_dim)
        self.eps = key("attention.layer_norm_rms_epsilon")
        self.theta = key("rope.freq_base", 10000.0)
        self.rope = {"kind": key("rope.scaling.type", "none"), "factor": key("rope.scaling.factor"),
                     "original_max_position_embeddings": key("rope.scaling.original_context_length", self.max_len)}  # fmt: skip
        self.window, self.window_from = key("attention.sliding_window"), 0
        tensors = {
            t.name: quants.dequantize(t.data, t.tensor_type).astype(np.float64).reshape(t.shape[::-1])
            for t in reader.tensors
        }
        self.rope_factors = tensors.pop("rope_freqs.weight", None)
        if "gemma" in arch:  # GGUF holds 1 + w, and no query_pre_attn_scalar: these shapes have head_dim for it
            self.attn_scale = self.head_dim**-0.5
            self.attn_cap, self.final_cap = key("attn_logit_softcapping"), key("final_logit_softcapping")
            self.full_every = 2 if arch == "gemma2" else 6
            self.local_theta = 10000.0 if arch == "gemma3" else None
        stem = {
            "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
            "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
            "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
            "attn_qkv": "self_attn.qkv_proj",
        }  # fmt: skip
        if arch == "phi3":
            stem["ffn_up"] = "mlp.gate_up_proj"
        if "gemma" in arch:
            stem |= {"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
                     "post_ffw_norm": "post_feedforward_layernorm"}  # fmt: skip
        self.weights = {}
        for name, w in tensors.items():
            *layer, last, suffix = name.split(".")
            if arch == "llama" and last in ("attn_q", "attn_k"):
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

    def yarn(self, f):
        """Peng et al., 2023: fast pairs stay, slow ones are stretched, a ramp over pairs lies between."""
        r = self.rope
        dim, length, factor = self.rope_dim, r["original_max_position_embeddings"], r["factor"]
        at = lambda turns: dim * np.log(length / (turns * 2 * np.pi)) / (2 * np.log(self.theta))
        low, high = at(r.get("beta_fast") or 32), at(r.get("beta_slow") or 1)
        if r.get("truncate", True):
            low, high = np.floor(low), np.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        ramp = np.clip((np.arange(self.half) - low) / max(high - low, 0.001), 0, 1)
        return f / factor * ramp + f * (1 - ramp)

    def rope_scale(self):
        """What cos and sin are multiplied by."""
        r = self.rope
        if r.get("attention_factor"):
            return r["attention_factor"]
        if r["kind"] == "yarn":
            get = lambda s, m: 1 if s <= 1 else 0.1 * m * np.log(s) + 1
            if r.get("mscale") and r.get("mscale_all_dim"):
                return get(r["factor"], r["mscale"]) / get(r["factor"], r["mscale_all_dim"])
            return get(r["factor"], 1)
        if r["kind"] in ("longrope", "su"):
            original = r["original_max_position_embeddings"]
            factor = r.get("factor") or self.max_len / original
            return 1 if factor <= 1 else np.sqrt(1 + np.log(factor) / np.log(original))
        return 1

    def frequencies(self, local=False):
        if local:
            return self.local_theta ** (-np.arange(self.half) / self.half)
        f = self.theta ** (-np.arange(self.half) / self.half)
        if self.rope["kind"] == "yarn":
            f = self.yarn(f)
        if self.rope["kind"] in ("longrope", "su"):
            longer = self.context > self.rope["original_max_position_embeddings"]
            f = f / np.array(self.rope["long_factor" if longer else "short_factor"])
        if self.rope["kind"] == "linear":
            f = f / self.rope["factor"]
        if self.rope["kind"] == "llama3":
            factor, low, high = (self.rope[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
            context = self.rope["original_max_position_embeddings"]
            wavelength = 2 * np.pi / f
            smooth = np.clip((context / wavelength - low) / (high - low), 0, 1)
            f = (1 - smooth) * f / factor + smooth * f
        return f if self.rope_factors is None else f / self.rope_factors.reshape(-1)

    def rotate(self, x, local=False):
        """x [T, heads, head_dim]; of which the first rope_dim turn, half with half, and the others pass."""
        angle = np.arange(len(x))[:, None, None] * self.frequencies(local)
        a, b, still = np.split(x, [self.half, 2 * self.half], axis=-1)
        scale = 1 if local else self.rope_scale()
        cos, sin = np.cos(angle) * scale, np.sin(angle) * scale
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, still], axis=-1)

    def attention(self, h, layer):
        name, t = f"model.layers.{layer}.self_attn.", len(h)
        q = self.linear(h, name + "q_proj").reshape(t, self.n_head, self.head_dim)
        k = self.linear(h, name + "k_proj").reshape(t, self.n_kv_head, self.head_dim)
        v = self.linear(h, name + "v_proj").reshape(t, self.n_kv_head, self.head_dim)
        if name + "q_norm.weight" in self.weights:
            q, k = self.norm(q, name + "q_norm"), self.norm(k, name + "k_norm")
        group = self.n_head // self.n_kv_head
        windowed = self.window and layer >= self.window_from and not (self.full_every and (layer + 1) % self.full_every == 0)
        local = bool(windowed and self.local_theta)
        q, k, v = self.rotate(q, local), np.repeat(self.rotate(k, local), group, axis=1), np.repeat(v, group, axis=1)
        score = np.einsum("qhd,khd->hqk", q, k) * (self.attn_scale or self.head_dim**-0.5)
        if self.attn_cap:
            score = self.attn_cap * np.tanh(score / self.attn_cap)
        back = np.arange(t)[:, None] - np.arange(t)[None, :]
        hidden = back < 0
        if windowed:
            hidden |= back >= self.window
        score = np.where(hidden, -np.inf, score)
        p = np.exp(score - score.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        return self.linear(np.einsum("hqk,khd->qhd", p, v).reshape(t, -1), name + "o_proj")

    def mlp(self, h, layer):
        name = f"model.layers.{layer}.mlp."
        gate, up = self.linear(h, name + "gate_proj"), self.linear(h, name + "up_proj")
        if "gemma" in self.family:
            gate = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        return self.linear(gate * up, name + "down_proj")

    context = 1 << 30  # the longest sequence that is allowed for (longrope)

    def logits(self, ids):
        """[T, vocabulary], of every position."""
        x = self.weights["model.embed_tokens.weight"][np.asarray(ids)] * self.embd_scale
        for i in range(self.n_layer):
            layer = f"model.layers.{i}."
            if "gemma" in self.family:  # norms behind attention and MLP too
                y = self.attention(self.norm(x, layer + "input_layernorm"), i)
                x = x + self.norm(y, layer + "post_attention_layernorm")
                y = self.mlp(self.norm(x, layer + "pre_feedforward_layernorm"), i)
                x = x + self.norm(y, layer + "post_feedforward_layernorm")
                continue
            x = x + self.attention(self.norm(x, f"model.layers.{i}.input_layernorm"), i)
            x = x + self.mlp(self.norm(x, f"model.layers.{i}.post_attention_layernorm"), i)
        y = self.linear(self.norm(x, "model.norm"), "lm_head")
        return self.final_cap * np.tanh(y / self.final_cap) if self.final_cap else y

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
