"""Model files of a few kilobytes, made byte by byte from the published formats (ggml's docs/gguf.md, safetensors' README,
the Hugging Face layout), right ones or deliberately wrong: for tests of hostile files and as seeds of the fuzzers."""

import json
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACKED = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q", I64: "<q", F64: "<d"}
# ggml type -> values of a block, bytes of a block
BLOCK = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 20: (32, 18), 30: (1, 2), 39: (32, 17)}

N_LAYER, N_EMBD, N_HEAD, N_KV, HEAD_DIM, N_FF, N_VOCAB = 1, 32, 2, 1, 16, 32, 16
TOKENS = ["<unk>", "<s>", "</s>", "a", "b", "c", "ab", "abc", "Ġ", "Ġa", "d", "e", "f", "g", "h", "i"]
MERGES = ["a b", "ab c", "Ġ a"]


def gguf_string(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_string(value)
    if kind == ARRAY:
        of, items = value
        return struct.pack("<IQ", of, len(items)) + b"".join(gguf_value(of, item) for item in items)
    return struct.pack(PACKED[kind], value)


def gguf_key(name, kind, value):
    return gguf_string(name) + struct.pack("<I", kind) + gguf_value(kind, value)


def tensor_bytes(kind, shape):
    values, size = BLOCK[kind]
    n = size
    for d in shape:
        n *= d
    return n // values


class Gguf:
    """Keys and tensors in order; every count, offset and length can be overruled."""

    def __init__(self, version=3, alignment=32):
        self.version, self.alignment = version, alignment
        self.keys, self.tensors = [], []  # bytes; [name, shape (row length first), type, data, offset or None]
        self.n_key = self.n_tensor = None

    def key(self, name, kind, value):
        self.keys.append(gguf_key(name, kind, value))
        return self

    def tensor(self, name, shape, kind=0, data=None, offset=None):
        if data is None:
            data = bytes(1 + i % 50 for i in range(tensor_bytes(kind, shape)))
        self.tensors.append([name, list(shape), kind, data, offset])
        return self

    def bytes(self):
        entries, body = b"", b""
        for name, shape, kind, data, offset in self.tensors:
            body += bytes(-len(body) % self.alignment)
            entries += gguf_string(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in shape)
            entries += struct.pack("<IQ", kind & 0xFFFFFFFF, len(body) if offset is None else offset)
            body += data
        head = b"GGUF" + struct.pack(
            "<IQQ", self.version, len(self.tensors) if self.n_tensor is None else self.n_tensor,
            len(self.keys) if self.n_key is None else self.n_key,
        )  # fmt: skip
        head += b"".join(self.keys) + entries
        return head + bytes(-len(head) % self.alignment) + body


def gguf_model(arch="llama", matrix=1, tokenizer="gpt2", **changed):
    """A whole small model. changed: a key's last word -> (kind, value), None takes it away."""
    g = Gguf()
    keys = {
        "general.architecture": (STRING, arch),
        "block_count": (U32, N_LAYER), "context_length": (U32, 64), "embedding_length": (U32, N_EMBD),
        "feed_forward_length": (U32, N_FF), "attention.head_count": (U32, N_HEAD), "attention.head_count_kv": (U32, N_KV),
        "attention.key_length": (U32, HEAD_DIM), "attention.value_length": (U32, HEAD_DIM),
        "attention.layer_norm_rms_epsilon": (F32, 1e-5), "rope.dimension_count": (U32, HEAD_DIM),
        "rope.freq_base": (F32, 10000.0), "vocab_size": (U32, N_VOCAB),
    }  # fmt: skip
    keys |= {name.replace("__", "."): value for name, value in changed.items()}
    for name, value in keys.items():
        if value is not None:
            g.key(name if name.startswith(("general.", "tokenizer.")) else f"{arch}.{name}", *value)
    if tokenizer:
        gguf_tokenizer(g, tokenizer)
    norm = [1.0] * N_EMBD
    f32 = struct.pack(f"<{N_EMBD}f", *norm)
    g.tensor("token_embd.weight", [N_EMBD, N_VOCAB], matrix)
    g.tensor("output_norm.weight", [N_EMBD], 0, f32)
    for name in ("attn_norm", "ffn_norm"):
        g.tensor(f"blk.0.{name}.weight", [N_EMBD], 0, f32)
    for name, rows in (("attn_q", N_HEAD * HEAD_DIM), ("attn_k", N_KV * HEAD_DIM), ("attn_v", N_KV * HEAD_DIM),
                       ("attn_output", N_EMBD), ("ffn_gate", N_FF), ("ffn_up", N_FF), ("ffn_down", N_EMBD)):  # fmt: skip
        g.tensor(f"blk.0.{name}.weight", [N_EMBD, rows], matrix)
    if arch == "qwen2":
        for name, rows in (("attn_q", 32), ("attn_k", 16), ("attn_v", 16)):
            g.tensor(f"blk.0.{name}.bias", [rows], 0, struct.pack(f"<{rows}f", *[0.5] * rows))
    if arch == "qwen3":
        for name in ("attn_q_norm", "attn_k_norm"):
            g.tensor(f"blk.0.{name}.weight", [HEAD_DIM], 0, struct.pack(f"<{HEAD_DIM}f", *[1.0] * HEAD_DIM))
    return g


def gguf_tokenizer(g, model="gpt2", tokens=TOKENS, merges=MERGES, template="{% for m in messages %}{{ m.content }}{% endfor %}"):
    if model != "gpt2":
        tokens = [t.replace("Ġ", "▁") for t in tokens]
    g.key("tokenizer.ggml.model", STRING, model)
    if model == "gpt2":
        g.key("tokenizer.ggml.pre", STRING, "qwen2")
    g.key("tokenizer.ggml.tokens", ARRAY, (STRING, tokens))
    g.key("tokenizer.ggml.token_type", ARRAY, (I32, [2 if model != "gpt2" else 3, 3, 3] + [1] * (len(tokens) - 3)))
    if model == "gpt2":
        g.key("tokenizer.ggml.merges", ARRAY, (STRING, merges))
    else:
        g.key("tokenizer.ggml.scores", ARRAY, (F32, [-float(i) for i in range(len(tokens))]))
        g.key("tokenizer.ggml.unknown_token_id", U32, 0)
    g.key("tokenizer.ggml.bos_token_id", U32, 1).key("tokenizer.ggml.eos_token_id", U32, 2)
    g.key("tokenizer.ggml.add_bos_token", BOOL, True)
    if template:
        g.key("tokenizer.chat_template", STRING, template)
    return g


# Of directories: smaller still, since their numbers are not quantised.
H_EMBD = H_FF = 16  # one head of 16
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": H_EMBD,
    "intermediate_size": H_FF, "num_hidden_layers": N_LAYER, "num_attention_heads": 1, "num_key_value_heads": 1,
    "head_dim": HEAD_DIM, "vocab_size": N_VOCAB, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "bos_token_id": 1, "eos_token_id": [2], "tie_word_embeddings": True,
}  # fmt: skip
TOKENIZER_CONFIG = {
    "bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": True,
    "added_tokens_decoder": {"1": {"content": "<s>", "special": True}},
    "chat_template": "{% for m in messages %}{{ m.role + ': ' + m.content }}\n{% endfor %}",
}  # fmt: skip


def tokenizer_json(**changed):
    """Byte-level BPE with all 256 bytes missing but those of TOKENS; changed: top-level members, or model's with model=."""
    out = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": TOKENS[i], "special": True} for i in range(3)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"},
             "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]},
        "post_processor": {"type": "ByteLevel"},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(TOKENS)}, "merges": MERGES},
    }  # fmt: skip
    model = out["model"] | changed.pop("model", {})
    return out | changed | {"model": model}


def tensors_hf(arch="llama", n=H_EMBD):
    """name -> shape, of the config above; n: its sizes."""
    out = {"model.embed_tokens.weight": [N_VOCAB, n], "model.norm.weight": [n]}
    layer = "model.layers.0."
    out |= {layer + p + ".weight": [n] for p in ("input_layernorm", "post_attention_layernorm")}
    out |= {layer + "self_attn." + p + "_proj.weight": [n, n] for p in "qkvo"}
    out |= {layer + "mlp." + p + "_proj.weight": [n, n] for p in ("gate", "up", "down")}
    if arch == "qwen3":
        out |= {layer + f"self_attn.{n}_norm.weight": [HEAD_DIM] for n in "qk"}
    return out


SIZE = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "U8": 1, "I8": 1}


def safetensors_header(shapes, dtype="BF16"):
    """(header object, bytes of data). shapes: name -> shape, or (dtype, shape)."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        kind, shape = shape if isinstance(shape, tuple) else (dtype, shape)
        n = SIZE[kind]
        for d in shape:
            n *= d
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    return header, at


def safetensors_bytes(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    if isinstance(data, int):
        data = bytes(60 if i % 2 else 1 + i % 40 for i in range(data))
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def quantised_shapes(method):
    """The tensors of CONFIG at 32 for 16, in groups of 32, as GPTQ, AWQ and fp8 files have them."""
    out = {}
    for name, shape in tensors_hf(n=32).items():
        if "_proj" not in name:
            out[name] = shape
            continue
        rows, cols, stem = *shape, name.removesuffix("weight")
        if method == "fp8":
            out[name] = ("F8_E4M3", shape)
            out[stem + "weight_scale_inv"] = ("F32", [-(-rows // 16), -(-cols // 32)])
        elif method == "gptq":
            out[stem + "qweight"] = ("I32", [cols // 8, rows])
            out[stem + "qzeros"] = ("I32", [cols // 32, rows // 8])
            out[stem + "scales"] = ("F16", [cols // 32, rows])
            out[stem + "g_idx"] = ("I32", [cols])
        else:
            out[stem + "qweight"] = ("I32", [cols, rows // 8])
            out[stem + "qzeros"] = ("I32", [cols // 32, rows // 8])
            out[stem + "scales"] = ("F16", [cols // 32, rows])
    return out


def write_directory(path, config=CONFIG, tokenizer=None, tokenizer_config=TOKENIZER_CONFIG, weights=None):
    """A model directory. Every part may be an object, bytes, or False for none."""
    path.mkdir(parents=True, exist_ok=True)
    if weights is None:
        weights = safetensors_bytes(*safetensors_header(tensors_hf()))
    parts = {"config.json": config, "tokenizer.json": tokenizer_json() if tokenizer is None else tokenizer,
             "tokenizer_config.json": tokenizer_config, "model.safetensors": weights}  # fmt: skip
    for name, value in parts.items():
        if value is not False:
            (path / name).write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path
