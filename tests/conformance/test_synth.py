"""`quire synth`: what it writes is read by the formats' own packages (gguf, safetensors, tokenizers, jinja2), and a GGUF
file and a directory of one seed hold the same numbers."""

import json
import math

import gguf
import jinja2
import numpy as np
import pytest
import tokenizers
from gguf import quants
from safetensors import safe_open

SHAPES = ["tiny-llama", "tiny-llama3", "tiny-qwen2", "tiny-qwen3", "tiny-gemma2", "tiny-gemma3", "tiny-phi3", "tiny-phi4"]
SEED = 5


@pytest.fixture(scope="module")
def synth(quire, tmp_path_factory):
    made = {}

    def make(shape, dtype, suffix, *options):
        key = (shape, dtype, suffix, options)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("synth") / f"model{suffix}"
            quire.run("synth", shape, made[key], "--dtype", dtype, "--seed", SEED, *options)
        return made[key]

    return make


def read_safetensors(path):
    """name -> fp32 array. bf16 has no numpy type, so the bytes are read here; the package checks the file before."""
    with safe_open(path, "np") as f:
        shapes = {name: f.get_slice(name).get_shape() for name in f.keys()}
    raw = path.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + n])
    header.pop("__metadata__")
    out = {}
    for name, entry in header.items():
        assert entry["shape"] == shapes[name]
        data = raw[8 + n + entry["data_offsets"][0] : 8 + n + entry["data_offsets"][1]]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(data, {"F32": np.float32, "F16": np.float16}[entry["dtype"]]).astype(np.float32)
        out[name] = values.reshape(entry["shape"])
    return out


def read_gguf(path):
    reader = gguf.GGUFReader(path)
    tensors = {t.name: quants.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
    fields = {name: field.contents() for name, field in reader.fields.items()}
    return fields, tensors


def gguf_names(arch, n_layer):
    table = gguf.get_tensor_name_map(
        {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3,
         "gemma2": gguf.MODEL_ARCH.GEMMA2, "gemma3": gguf.MODEL_ARCH.GEMMA3, "phi3": gguf.MODEL_ARCH.PHI3}[arch], n_layer
    )  # fmt: skip
    return lambda name: table.get_name(name, try_suffixes=(".weight", ".bias"))


def permute(w, n_head):
    """LlamaModel.permute of convert_hf_to_gguf.py."""
    return w.reshape(n_head, 2, w.shape[0] // n_head // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_both_formats_hold_the_same_numbers(synth, shape, dtype):
    directory = synth(shape, dtype, "")
    config = json.loads((directory / "config.json").read_text())
    hf = read_safetensors(directory / "model.safetensors")
    fields, own = read_gguf(synth(shape, dtype, ".gguf"))
    arch = fields["general.architecture"]
    name_of = gguf_names(arch, config["num_hidden_layers"])
    assert config["model_type"].removesuffix("_text") == arch
    seen = set()
    for name, want in hf.items():
        other = name_of(name)
        assert other, f"the name map of gguf-py does not know {name}"
        seen.add(other)
        if arch == "llama" and "attn_q." in other:
            want = permute(want, config["num_attention_heads"])
        if arch == "llama" and "attn_k." in other:
            want = permute(want, config["num_key_value_heads"])
        if "gemma" in arch and "norm" in name:  # directories hold w of (1 + w), GGUF files the sum
            assert np.allclose(own[other], want + 1, atol=1e-6) and not np.array_equal(own[other], want), name
            continue
        assert np.array_equal(own[other], want), name
    rest = set(own) - seen
    assert rest == ({"rope_freqs.weight"} if shape == "tiny-llama3" else set())
    assert ("lm_head.weight" in hf) == (not config["tie_word_embeddings"])


@pytest.mark.parametrize("dtype", ["f16", "bf16", "q8_0", "q4_0", "q4_1"])
def test_types_are_roundings_of_one_set_of_numbers(synth, dtype):
    kind = gguf.GGMLQuantizationType[dtype.upper()]
    exact = {t.name: t for t in gguf.GGUFReader(synth("tiny-qwen3", "f32", ".gguf")).tensors}
    rounded = gguf.GGUFReader(synth("tiny-qwen3", dtype, ".gguf")).tensors
    assert any(t.tensor_type == kind for t in rounded)
    for t in rounded:
        if t.tensor_type == kind:
            want = quants.quantize(np.array(exact[t.name].data), kind)
            assert np.array_equal(t.data.view(np.uint8).ravel(), want.view(np.uint8).ravel()), t.name
        else:
            assert np.array_equal(t.data, exact[t.name].data), t.name


def test_numbers_look_random(synth):
    _, tensors = read_gguf(synth("tiny-llama", "f32", ".gguf"))
    for name, w in tensors.items():
        assert np.isfinite(w).all()
        if w.ndim == 2:
            z = w / w.std()
            assert abs(z.mean()) < 5 / math.sqrt(w.size), name
            assert abs((z**4).mean() - 3) < 1, name  # a normal distribution's fourth moment
            alike = np.abs(z @ z.T / z.shape[1]) - 10 * np.eye(len(z))
            assert alike.max() < 7 / math.sqrt(z.shape[1]), f"{name}: two rows follow each other"


@pytest.mark.parametrize("shape", SHAPES)
def test_metadata(synth, shape):
    config = json.loads((synth(shape, "bf16", "") / "config.json").read_text())
    fields, _ = read_gguf(synth(shape, "q8_0", ".gguf"))
    arch = fields["general.architecture"]
    for key, name in {
        "block_count": "num_hidden_layers",
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads",
        "attention.key_length": "head_dim",
        "attention.value_length": "head_dim",
        "rope.freq_base": "rope_theta",
        "vocab_size": "vocab_size",
    }.items():
        assert fields[f"{arch}.{key}"] == config[name], key
    assert fields[f"{arch}.attention.layer_norm_rms_epsilon"] == np.float32(config["rms_norm_eps"])
    assert fields["general.file_type"] == gguf.LlamaFileType.MOSTLY_Q8_0
    assert fields["GGUF.version"] == 3
    assert len(fields["tokenizer.ggml.tokens"]) == config["vocab_size"]


def test_llama3_factors(synth):
    scaling = json.loads((synth("tiny-llama3", "f32", "") / "config.json").read_text())
    dim, base, s = scaling["head_dim"], scaling["rope_theta"], scaling["rope_scaling"]
    want = []  # LlamaModel.generate_extra_tensors of convert_hf_to_gguf.py
    for freq in 1.0 / (base ** (np.arange(0, dim, 2) / dim)):
        wavelength = 2 * math.pi / freq
        if wavelength < s["original_max_position_embeddings"] / s["high_freq_factor"]:
            want.append(1)
        elif wavelength > s["original_max_position_embeddings"] / s["low_freq_factor"]:
            want.append(s["factor"])
        else:
            smooth = (s["original_max_position_embeddings"] / wavelength - s["low_freq_factor"]) / (
                s["high_freq_factor"] - s["low_freq_factor"]
            )
            want.append(1 / ((1 - smooth) / s["factor"] + smooth))
    _, tensors = read_gguf(synth("tiny-llama3", "f32", ".gguf"))
    np.testing.assert_allclose(tensors["rope_freqs.weight"], want, rtol=1e-6)
    assert len(set(want)) > 2


@pytest.mark.parametrize("shape", SHAPES)
def test_tokenizer(synth, shape):
    directory = synth(shape, "bf16", "")
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    fields, _ = read_gguf(synth(shape, "bf16", ".gguf"))
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    assert sorted(vocab, key=vocab.get) == fields["tokenizer.ggml.tokens"]
    saved = json.loads((directory / "tokenizer.json").read_text())
    assert saved["model"]["merges"] == fields["tokenizer.ggml.merges"]
    assert {"qwen2": "qwen2", "qwen3": "qwen2", "gemma2": "qwen2", "gemma3": "qwen2", "phi3": "qwen2", "llama": "llama-bpe" if shape == "tiny-llama3" else "smollm"}[
        fields["general.architecture"]
    ] == fields["tokenizer.ggml.pre"]

    text = "The rather hot wind, in 2024 — naïve! 東京 \t\n\n  'tis and\x00\x7f 🙂"
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids) == text
    assert len(ids) < len(text.encode())  # merges happen
    assert tokenizer.encode(" the and").tokens == ["Ġthe", "Ġand"]
    chat = tokenizer.encode("<|im_start|>user\n<|im_end|>")
    assert chat.tokens[0] == "<|im_start|>" and chat.tokens[-1] == "<|im_end|>"
    assert chat.ids[-1] == fields["tokenizer.ggml.eos_token_id"]
    config = json.loads((directory / "config.json").read_text())
    assert fields["tokenizer.ggml.eos_token_id"] in np.atleast_1d(config["eos_token_id"])
    kinds = fields["tokenizer.ggml.token_type"]
    assert [t for t, k in zip(fields["tokenizer.ggml.tokens"], kinds) if k == gguf.TokenType.CONTROL] == [
        t["content"] for t in saved["added_tokens"]
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_quire_reads_the_tokenizers_alike(quire, synth, shape):
    directory, file = synth(shape, "bf16", ""), synth(shape, "bf16", ".gguf")
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    text = "<|im_start|>user\nThe rather hot wind, in 2024 — naïve! 東京 \t\n\n  'tis and 🙂<|im_end|>"
    want = tokenizer.encode(text).ids
    for model in (directory, file):
        assert json.loads(quire.text("tokenize", model, "--json", "--special", stdin=json.dumps(text))) == want
    messages = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    for model in (directory, file):
        assert quire.text("template", model, stdin=messages) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_chat_template(synth):
    saved = json.loads((synth("tiny-qwen2", "bf16", "") / "tokenizer_config.json").read_text())
    fields, _ = read_gguf(synth("tiny-qwen2", "bf16", ".gguf"))
    assert saved["chat_template"] == fields["tokenizer.chat_template"]
    text = jinja2.Template(saved["chat_template"]).render(
        messages=[{"role": "user", "content": "hi"}], add_generation_prompt=True
    )
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_shards(quire, synth, tmp_path):
    """A shard of 1 MB is the least that the command takes, so this shape has to be larger than tiny."""
    directory = tmp_path / "sharded"
    quire.run("synth", "smollm2-135m", directory, "--shard-mb", 100, "--seed", SEED)
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    assert len(files) >= 3 and files[0] == f"model-00001-of-{len(files):05}.safetensors"
    total = 0
    for file in files:
        with safe_open(directory / file, "np") as f:
            assert set(f.keys()) == {name for name, where in index["weight_map"].items() if where == file}
        raw = (directory / file).read_bytes()
        data = len(raw) - 8 - int.from_bytes(raw[:8], "little")
        assert data <= 100_000_000
        total += data
    assert total == index["metadata"]["total_size"]


def test_paths(quire, synth, tmp_path):
    path = synth("tiny-llama", "f16", ".gguf")
    before = path.read_bytes()
    done = quire.run("synth", "tiny-llama", path, check=False)
    assert done.returncode == 1 and "exists already" in done.stderr.decode()
    assert path.read_bytes() == before
    quire.run("synth", "tiny-llama", path, "--dtype", "f16", "--seed", SEED, "--overwrite")
    assert path.read_bytes() == before  # the same seed, the same file
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    done = quire.run("synth", "tiny-llama", home, "--overwrite", check=False)
    assert done.returncode == 1 and "letter.txt" in done.stderr.decode()
    assert (home / "letter.txt").read_text() == "dear"
    done = quire.run("synth", "tiny-llama", tmp_path / "q", "--dtype", "q8_0", check=False)
    assert done.returncode == 1 and "Q8_0" in done.stderr.decode()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home"]
