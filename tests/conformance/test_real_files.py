"""What the files of the ecosystem hold beside the textbook case: each works as with transformers, or is refused in a sentence that
tells what to do."""

import json
import shutil

import gguf
import numpy as np
import pytest

from numpy_forward import read_safetensors
from test_quantised import save
from test_rope import rewrite

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123456\n"


@pytest.fixture(scope="module")
def plain(quire, tmp_path_factory):
    path = tmp_path_factory.mktemp("real") / "plain"
    quire.run("synth", "tiny-llama", path, "--dtype", "f32", "--seed", 4)
    return path


@pytest.fixture
def model(plain, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(plain, path)
    return path


def answer(quire, path):
    return quire.run("complete", path, "-p", "hello", "-n", 6, "--temperature", 0).stdout


def refusal(quire, path, *command):
    done = quire.run(*(command or ("complete", path, "-p", "hello", "-n", 2)), check=False)
    message = done.stderr.decode()
    assert done.returncode == 1 and message.startswith("error: ") and message.count("\n") == 1 and len(message) < 400, message
    return message


def change(path, file, **values):
    """None takes a key away, NULL is JSON's."""
    data = json.loads((path / file).read_text())
    for key, value in values.items():
        data.pop(key, None)
        if value is not None:
            data[key] = None if value == "NULL" else value
    (path / file).write_text(json.dumps(data))


CONFIGS = {
    "no architectures": ("config.json", {"architectures": None}),
    "null architectures": ("config.json", {"architectures": "NULL"}),
    "nulls": ("config.json", {"rope_scaling": "NULL", "sliding_window": "NULL", "attention_bias": "NULL", "pad_token_id": -1}),
    "keys of transformers": ("config.json", {"dtype": "bfloat16", "transformers_version": "5.0", "_name_or_path": "x", "use_cache": True}),
    "no length": ("tokenizer_config.json", {"model_max_length": 1000000000000000019884624838656}),
    "tokens as objects": ("tokenizer_config.json", {"bos_token": {"__type": "AddedToken", "content": "<|endoftext|>", "lstrip": False}}),
    "samplers": ("generation_config.json", {"eos_token_id": [258, 256, 3], "top_k": -1, "top_p": "NULL", "suppress_tokens": [1]}),
    "no end": ("generation_config.json", {"eos_token_id": "NULL"}),
    "truncation": ("tokenizer.json", {"truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}}),
    "newer fields": ("tokenizer.json", {"something_new": 1, "version": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_configs(quire, plain, model, name):
    file, values = CONFIGS[name]
    change(model, file, **values)
    assert answer(quire, model) == answer(quire, plain)


def tensors_of(path):
    return {name: ("F32", w.astype(np.float32)) for name, w in read_safetensors(path / "model.safetensors").items()}


def test_tensors_that_mean_nothing(quire, plain, model):
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", np.ones(8, np.float32)),
             "model.layers.2.self_attn.q_proj.weight": ("F32", np.ones((64, 64), np.float32))}  # fmt: skip
    save(model / "model.safetensors", tensors_of(plain) | extra)
    shutil.copy(model / "model.safetensors", model / "consolidated.safetensors")
    assert answer(quire, model) == answer(quire, plain)


def test_missing_tensors_are_named_as_the_file_names_them(quire, plain, model):
    def without(name):
        tensors = tensors_of(plain)
        del tensors[name]
        save(model / "model.safetensors", tensors)
        return refusal(quire, model)

    said = without("lm_head.weight")
    assert '"lm_head.weight"' in said and "tie_word_embeddings" in said and str(model) in said
    assert '"model.layers.1.self_attn.q_proj.weight"' in without("model.layers.1.self_attn.q_proj.weight")
    assert '"model.layers.0.post_attention_layernorm.weight"' in without("model.layers.0.post_attention_layernorm.weight")
    save(model / "model.safetensors", tensors_of(plain))
    change(model, "config.json", vocab_size=400)
    assert 'tensor "model.embed_tokens.weight" has 320 rows' in refusal(quire, model)


@pytest.mark.parametrize("shape, name", [("tiny-gemma2", "model.layers.1.pre_feedforward_layernorm.weight"),
                                         ("tiny-gemma3", "model.layers.0.post_attention_layernorm.weight"),
                                         ("tiny-phi3", "model.layers.1.self_attn.qkv_proj.weight")])  # fmt: skip
def test_missing_tensors_of_other_families(quire, tmp_path, shape, name):
    path = tmp_path / "model"
    quire.run("synth", shape, path, "--dtype", "f32")
    tensors = tensors_of(path)
    del tensors[name]
    save(path / "model.safetensors", tensors)
    assert f'"{name}"' in refusal(quire, path)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
def test_pointers_and_pages(quire, model, file):
    for text, words in ((LFS, "Git LFS"), ("<!DOCTYPE html>\n<html>", "a web page"), ("<html>", "a web page")):
        (model / file).write_text(text)
        said = refusal(quire, model)
        assert words in said and file in said


def test_pointers_in_place_of_gguf(quire, tmp_path):
    (tmp_path / "m.gguf").write_text(LFS)
    assert "Git LFS" in refusal(quire, tmp_path / "m.gguf")


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_file_of_a_directory(quire, plain, file):
    assert "give the directory that holds it" in refusal(quire, plain / file)


def test_byte_order_mark(quire, model):
    (model / "config.json").write_bytes(b"\xef\xbb\xbf" + (model / "config.json").read_bytes())
    assert "byte order mark" in refusal(quire, model)


def test_a_tokenizer_of_sentencepiece_alone(quire, model):
    (model / "tokenizer.json").rename(model / "tokenizer.model")
    assert "tokenizer.model is not read" in refusal(quire, model)


def test_a_token_beyond_the_vocabulary(quire, plain, model):
    """Fine-tunes add [PAD] without a row for it: all works that does not use it."""
    data = json.loads((model / "tokenizer.json").read_text())
    data["added_tokens"].append({"id": 320, "content": "[PAD]", "single_word": False, "lstrip": False, "rstrip": False,
                                 "normalized": False, "special": True})  # fmt: skip
    (model / "tokenizer.json").write_text(json.dumps(data))
    assert answer(quire, model) == answer(quire, plain)
    assert "320: the model's ids lie within 0 and 319" in refusal(quire, model, "complete", model, "-p", "a[PAD]", "-n", 2)


REQUEST = {"messages": [{"role": "user", "content": "hi"}]}
TOOLS = REQUEST | {"tools": [{"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}]}


def rendered(quire, path, request=REQUEST):
    return quire.text("template", path, stdin=json.dumps(request))


def test_where_templates_lie(quire, model):
    change(model, "tokenizer_config.json", chat_template="config {{ messages[0].content }}")
    assert rendered(quire, model) == "config hi"
    (model / "chat_template.jinja").write_bytes(b"file\r\n{{ messages[0].content }}\r\n")
    assert rendered(quire, model) == rendered(quire, model, TOOLS) == "file\nhi"
    (model / "additional_chat_templates").mkdir()
    (model / "additional_chat_templates" / "tool_use.jinja").write_text("with {{ tools|length }}")
    assert rendered(quire, model) == "file\nhi" and rendered(quire, model, TOOLS) == "with 1"


def test_special_tokens_in_templates(quire, model):
    """special_tokens_map of transformers; what the request sets goes first."""
    text = "{{ bos_token }}{{ pad_token }}{{ unk_token }}{{ cls_token is defined }}{{ additional_special_tokens }}"
    change(model, "tokenizer_config.json", chat_template=text, pad_token="<pad>", unk_token={"content": "<unk>", "lstrip": False},
           cls_token="NULL", additional_special_tokens=["<a>", {"content": "<b>"}])  # fmt: skip
    assert rendered(quire, model) == "<|endoftext|><pad><unk>False['<a>', '<b>']"
    assert rendered(quire, model, REQUEST | {"chat_template_kwargs": {"pad_token": "mine"}}).startswith("<|endoftext|>mine<unk>")


def test_templates_by_name(quire, model):
    named = [{"name": "tool_use", "template": "with {{ tools|length }}"}, {"name": "default", "template": "without"}]
    change(model, "tokenizer_config.json", chat_template=named)
    assert rendered(quire, model) == "without" and rendered(quire, model, TOOLS) == "with 1"
    change(model, "tokenizer_config.json", chat_template=[{"name": "rag", "template": "x"}])
    done = quire.run("template", model, stdin=json.dumps(REQUEST), check=False)
    assert done.returncode == 1 and b'"rag"' in done.stderr and b"default" in done.stderr
    assert answer(quire, model)  # text goes on without one


def test_gguf(quire, tmp_path):
    source, path = tmp_path / "plain.gguf", tmp_path / "m.gguf"
    quire.run("synth", "tiny-llama", source, "--dtype", "f32", "--seed", 4)
    rewrite(source, path, {}, {"rope_freqs.weight": [1.0] * 8})
    assert answer(quire, path) == answer(quire, source)
    path.write_bytes(path.read_bytes() + b"behind the end")
    assert answer(quire, path) == answer(quire, source)
    n = len(gguf.GGUFReader(source).tensors)  # 123 tensors: the count looks like a safetensors file's brace
    rewrite(source, path, {}, {f"blk.{i}.attn_norm.weight": [1.0] * 64 for i in range(2, 2 + 123 - n)})
    assert path.read_bytes()[8] == ord("{") and answer(quire, path) == answer(quire, source)
    rewrite(source, path, {}, {"blk.0.attn_q.weight.lora_a": [1.0]})
    assert '"blk.0.attn_q.weight.lora_a"' in refusal(quire, path)
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(str(path), "llama")
    for f in reader.fields.values():
        if not f.name.startswith("GGUF.") and f.name not in ("general.architecture", "tokenizer.ggml.merges"):
            sub = f.types[-1] if f.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(f.name, f.contents(), f.types[0], sub_type=sub)
    writer.add_string("general.something.new", "x")
    for t in reader.tensors:
        writer.add_tensor(t.name, t.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "tokenizer.ggml.merges is missing" in refusal(quire, path)
