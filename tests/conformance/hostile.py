"""Hostile model files, tokenizers and templates: every input of RELIABILITY items 1 to 30 in several variants, and small
right files with bytes cut off or changed. generate() yields cases; each writes what it needs into a folder of its own and says
how quire is called on it."""

import json
import os
import random
import struct
from dataclasses import dataclass
from typing import Callable

import small_files as small
from small_files import ARRAY, BOOL, F32, F64, I32, STRING, U32, U64, Gguf, gguf_model

BIG = (2**64 - 1, 2**63, 2**62 + 1, 2**32, 2**31)


@dataclass
class Case:
    name: str  # item and variant: "06 product-3"
    write: Callable  # folder -> path to give to quire
    command: str = "complete"  # complete, tokenize, template
    fails: bool = True  # False: a changed byte that may do no harm
    says: str = ""  # a word that the message must hold


def gguf(name, made, says="", **more):
    def write(folder):
        path = folder / "m.gguf"
        path.write_bytes(made.bytes() if isinstance(made, Gguf) else made)
        return path

    return Case(name, write, says=says, **more)


def directory(name, says="", **parts):
    more = {k: parts.pop(k) for k in ("command", "fails") if k in parts}
    return Case(name, lambda folder: small.write_directory(folder / "m", **parts), says=says, **more)


def words(size, text=b"x"):
    return struct.pack("<Q", size) + text


# ---------------------------------------------------------------- GGUF: 1-11
def counts_and_lengths():
    for i, n in enumerate(BIG):
        g = gguf_model()
        g.n_tensor = n
        yield gguf(f"02 tensors-{i}", g, "tensors")
        g = gguf_model()
        g.n_key = n
        yield gguf(f"02 keys-{i}", g, "keys")
        g = gguf_model()
        g.keys.insert(0, small.gguf_string("general.name") + struct.pack("<I", STRING) + words(n))
        yield gguf(f"03 value-{i}", g, "general.name")
        g = gguf_model()
        g.keys.insert(0, words(n, b"key"))
        yield gguf(f"03 key-{i}", g)
        g = gguf_model()
        g.tensors[0][0] = "long"
        yield gguf(f"03 tensor-{i}", g.bytes().replace(small.gguf_string("long"), words(n, b"long")))
        for kind in (0, 4, 6, 8, 10, 12):
            g = gguf_model()
            g.keys.insert(0, small.gguf_string("list") + struct.pack("<IIQ", ARRAY, kind, n) + bytes(16))
            yield gguf(f"04 array{kind}-{i}", g, "list")
    for depth in (1, 2, 50, 5000):
        g = gguf_model()
        g.keys.insert(0, small.gguf_string("nest") + struct.pack("<I", ARRAY) + struct.pack("<IQ", ARRAY, 1) * depth)
        yield gguf(f"04 nested-{depth}", g, "nest")
    for kind in (13, 100, 2**31, 2**32 - 1):
        g = gguf_model()
        g.keys.insert(0, small.gguf_string("odd") + struct.pack("<I", kind) + bytes(8))
        yield gguf(f"04 kind-{kind}", g, "odd")


def alignments():
    for n in (0, 1, 3, 13, 33, 2**21, 2**31, 2**32 - 1):
        yield gguf(f"05 u32-{n}", gguf_model(general__alignment=(U32, n)), "alignment")
    for kind, value in ((STRING, "32"), (F32, 32.0), (F64, 32.0), (BOOL, True), (ARRAY, (U32, [32])), (U64, 2**63), (I32, -32)):
        yield gguf(f"05 kind{kind}", gguf_model(general__alignment=(kind, value)), "alignment")


def shapes():
    wrong = {
        "product": [2**32, 2**32], "product-3": [2**21, 2**22, 2**21], "product-4": [2**16] * 4, "bytes": [2**62], "bytes-2": [2**61, 2],
        "zero": [32, 0], "zero-first": [0, 16], "five": [32, 16, 1, 1, 1], "hundred": [1] * 100, "none": [], "big": [2**63],
        "negative": [2**64 - 32, 16], "ragged": [31, 16], "three": [32, 4, 4],
    }  # fmt: skip
    for kind in (0, 1, 8):
        for name, shape in wrong.items():
            if name == "ragged" and kind != 8:
                continue
            g = gguf_model(matrix=kind)
            g.tensors[0][1] = shape
            item = "08" if name in ("zero", "zero-first", "five", "hundred", "none") else "06"
            yield gguf(f"{item} {name}-type{kind}", g, "token_embd")
    for i in range(3):  # each fits, the sum does not
        g = gguf_model()
        for k in range(2 + i):
            g.tensor(f"blk.0.more{k}.weight", [2**61 >> i, 1], 0, b"")
        yield gguf(f"07 sum-{i}", g)
    for kind in (4, 5, 31, 32, 33, 36, 37, 38, 40, 99, 1000, 2**31 - 1, -1, -2, -(2**31)):
        g = gguf_model()
        g.tensors[4][2] = kind
        yield gguf(f"09 type{kind}", g, "blk.0.attn_q")
    for kind in (16, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27, 28, 29, 34, 35):
        g = gguf_model()
        g.tensors[4][2] = kind
        yield gguf(f"09 known-{kind}", g, "blk.0.attn_q")


def places():
    for i, offset in enumerate((2**63, 2**64 - 32, 2**40, 32 * 10**6, 2**64 - 1)):
        for which in (0, 4, -1):
            g = gguf_model()
            g.tensors[which][4] = offset
            yield gguf(f"10 far-{i}-{which}", g, g.tensors[which][0])
    for offset in (1, 8, 16, 31):
        g = gguf_model()
        g.tensors[3][4] = offset
        yield gguf(f"10 unaligned-{offset}", g, g.tensors[3][0])
    for which in range(1, 6):
        g = gguf_model()
        g.tensors[which][4] = 0
        yield gguf(f"10 overlap-{which}", g)
    for which in range(4):
        g = gguf_model()
        g.tensors.append(list(g.tensors[which]))
        yield gguf(f"11 tensor-{which}", g, g.tensors[which][0])
        g = gguf_model()
        g.keys.insert(which, g.keys[which + 2])
        yield gguf(f"11 key-{which}", g)
        g = gguf_model()
        g.key("general.architecture", STRING, "qwen2")
        g.keys.insert(which, g.keys.pop())
        yield gguf(f"11 arch-{which}", g, "general.architecture")
    for name in ("", "a" * 65, "a" * 1000, "blk.99.attn_q.weight", "blk.-1.attn_q.weight", "blk.0.attn_q.weight\0x", "\x1b[2J", "model.layers.0"):
        g = gguf_model()
        g.tensors[4][0] = name
        yield gguf(f"11 name-{len(name)}-{name[:5]!a}", g)
    for i in range(len(gguf_model().tensors)):
        g = gguf_model()
        name = g.tensors.pop(i)[0]
        yield gguf(f"10 without-{name}", g, "" if name in ("output_norm.weight",) else name)


def versions():
    for version in (0, 1, 4, 100, 2**31, 0x03000000):
        g = gguf_model()
        g.version = version
        yield gguf(f"01 version-{version}", g)
    whole = gguf_model().bytes()
    for magic in (b"GGML", b"gguf", b"\0\0\0\0", b"PK\3\4", b"<htm"):
        yield gguf(f"01 magic-{magic!a}", magic + whole[4:], "GGUF")
    for n in (0, 1, 3, 4, 7, 8, 15, 16, 23, 24):
        yield gguf(f"01 head-{n}", whole[:n])


def gguf_values():
    """What keys say: 15 and 17-20 for GGUF files."""
    keys = ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
            "attention.key_length", "rope.dimension_count")  # fmt: skip
    for key in keys:
        for kind, value in ((U32, 0), (I32, -1), (I32, -(2**31)), (U32, 2**31), (U32, 2**32 - 1), (U64, 2**63), (F32, 1.0), (STRING, "2"), (U32, 3)):
            if key == "context_length" and value == 3:
                continue
            yield gguf(f"15 {key}-{kind}-{value}", gguf_model(**{key.replace(".", "__"): (kind, value)}), fails=value != 3)
        yield gguf(f"15 {key}-none", gguf_model(**{key.replace(".", "__"): None}),
                   fails=key in ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"))  # fmt: skip
    for value in (float("nan"), float("inf"), -1.0, 0.0, 1e30):
        yield gguf(f"15 eps-{value}", gguf_model(attention__layer_norm_rms_epsilon=(F32, value)), "rms_norm_eps")
        yield gguf(f"15 theta-{value}", gguf_model(rope__freq_base=(F32, value)), fails=value != 1e30)
    for arch in ("", "gpt2", "Llama", "llama\0", "mamba", "a" * 300, "\x1b[31mllama"):
        yield gguf(f"15 arch-{arch[:8]!a}", gguf_model(general__architecture=(STRING, arch)), "architecture")

    def text(name, says="m.gguf", fails=True, **more):
        g = gguf_model(tokenizer=None)
        for key, (kind, value) in {
            "tokenizer.ggml.model": (STRING, "gpt2"), "tokenizer.ggml.pre": (STRING, "qwen2"),
            "tokenizer.ggml.tokens": (ARRAY, (STRING, small.TOKENS)), "tokenizer.ggml.merges": (ARRAY, (STRING, small.MERGES)),
            "tokenizer.ggml.token_type": (ARRAY, (I32, [3, 3, 3] + [1] * 13)),
        }.items():  # fmt: skip
            kind, value = more.pop(key.split(".")[-1], (kind, value))
            if value is not None:
                g.key(key, kind, value)
        for key, (kind, value) in more.items():
            g.key(f"tokenizer.ggml.{key}", kind, value)
        return gguf(name, g, says, command="tokenize", fails=fails)

    yield text("17 merge-long", merges=(ARRAY, (STRING, ["a b", "a" * 100000 + " b"])))
    yield text("17 merge-unknown", merges=(ARRAY, (STRING, ["a z"])))
    yield text("17 merge-empty", merges=(ARRAY, (STRING, [""])))
    yield text("17 merge-space", merges=(ARRAY, (STRING, [" "])))
    yield text("17 merge-one", merges=(ARRAY, (STRING, ["ab"])))
    yield text("17 merge-numbers", merges=(ARRAY, (U32, [1, 2])))
    yield text("17 merge-bytes", merges=(ARRAY, (STRING, [b"\xff a"])))
    yield text("19 twice", tokens=(ARRAY, (STRING, small.TOKENS[:-1] + ["a"])))
    yield text("19 types-few", token_type=(ARRAY, (I32, [1] * 5)))
    yield text("19 type-99", token_type=(ARRAY, (I32, [99] * 16)))
    yield text("19 type-negative", token_type=(ARRAY, (I32, [-1] * 16)))
    yield text("19 tokens-string", tokens=(STRING, "abc"))
    yield text("19 tokens-empty", tokens=(ARRAY, (STRING, [])), merges=(STRING, None), token_type=(STRING, None))
    yield text("19 bytes", tokens=(ARRAY, (STRING, [b"\xff\xfe"] + small.TOKENS[1:])))
    yield text("19 empty", fails=False, tokens=(ARRAY, (STRING, ["x", "y", "z"] + [""] + small.TOKENS[4:])), merges=(ARRAY, (STRING, [])))
    for id_ in (16, 99, 2**31 - 1):
        yield text(f"19 bos-{id_}", says=str(id_), bos_token_id=(U32, id_))
        yield text(f"19 eos-{id_}", says=str(id_), eos_token_id=(U32, id_))
    yield text("19 bos-text", bos_token_id=(STRING, "1"))
    yield text("19 add-none", says="bos", add_bos_token=(BOOL, True))
    for model in ("bert", "rwkv", "no_vocab", "", "plamo2", "GPT2"):
        yield text(f"21 model-{model}", model=(STRING, model))
    for pre in ("", "unknown-pre", "a" * 500, "QWEN2"):
        yield text(f"21 pre-{pre[:8]}", pre=(STRING, pre))
    yield text("21 pre-none", pre=(STRING, None))
    for model in ("llama", "t5"):
        for i, scores in enumerate(([0.0] * 5, [float("nan")] * 16, [float("inf")] * 16)):
            yield text(f"19 {model}-scores-{i}", model=(STRING, model), scores=(ARRAY, (F32, scores)))


# ---------------------------------------------------------------- safetensors and directories: 12-16
def safetensors_lies():
    header, n = small.safetensors_header(small.tensors_hf())
    names = list(small.tensors_hf())

    def st(name, head, data=n, says="", length=None, **more):
        return directory(f"12 {name}", says, weights=small.safetensors_bytes(head, data, length), **more)

    def changed(name, says="", tensor=names[2], **entry):
        big = any(isinstance(v, int) and abs(v) >= 2**63 for value in entry.values() if isinstance(value, list) for v in value)
        return st(name, header | {tensor: header[tensor] | entry}, says="header" if big else says or tensor)

    for i, length in enumerate((*BIG, 100_000_001, 10**8, 10**7, 1, 0)):
        yield st(f"length-{i}", header, length=length)
    for i, head in enumerate((b"", b"[]", b"null", b"{", b"{}", b" {}", b"\xef\xbb\xbf{}", b"{\"a\":1}", b"{\"a\":{}}", b"\0" * 64, b"{" * 300,
                              b'{"a":' * 100000, b'{"__metadata__":5}', b'{"__metadata__":{"a":1}}')):  # fmt: skip
        yield st(f"head-{i}", head, 0)
    for i, (begin, end) in enumerate(((0, 2**63), (2**64 - 1, 2**64), (-1, 5), (10, 5), (1.5, 2), ("0", "1"), (0, 10**15), (None, 3))):
        yield changed(f"offsets-{i}", data_offsets=[begin, end])
    for i, value in enumerate((5, "x", [], [0], [0, 1, 2], {"a": 1}, None)):
        yield changed(f"offsets-kind-{i}", data_offsets=value)
    for i, shape in enumerate(([], [0], [16, 0], [-16, 16], [2**63, 2], [2**32, 2**32], [1.5], ["16"], 16, None, [1] * 9, [16] * 1000, [17, 16], [2**70])):
        yield changed(f"shape-{i}", shape=shape)
    for i, dtype in enumerate(("", "BF17", "bf16", "F64", "I64", "BOOL", "U8", 16, None, "F8_E4M3", "B" * 1000, "F8_E5M2")):
        yield changed(f"dtype-{i}", dtype=dtype)
    yield changed("no-dtype", dtype=None)
    for i in range(3):
        hole = json.loads(json.dumps(header))
        for name in names[i + 2 :]:
            hole[name]["data_offsets"] = [v + 8 for v in hole[name]["data_offsets"]]
        yield st(f"hole-{i}", hole, n + 8)
        yield st(f"trailing-{i}", header, n + 10**i, "follow")
        yield st(f"short-{i}", header, n - 10**i, "cut off")
        over = json.loads(json.dumps(header))
        over[names[i + 3]]["data_offsets"] = over[names[i + 2]]["data_offsets"]
        yield st(f"overlap-{i}", over)
    text = json.dumps(header)
    yield st("twice", (text[:-1] + "," + json.dumps({names[2]: header[names[2]]})[1:]).encode())
    yield st("many", {f"model.layers.{i}.x": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(100_000)}, 0)
    yield st("many-real", header | {f"t{i}": {"dtype": "F32", "shape": [1], "data_offsets": [n + 4 * i, n + 4 * i + 4]} for i in range(50_000)}, n + 200_000)
    for name in ("x" * 100, "x" * 200, "x" * 5000, "model.layers.99999999999.mlp.up_proj.weight", "model.layers.-1.mlp.up_proj.weight", "", "\u0000", "\u001b[2J"):
        yield st(f"name-{len(name)}-{name[:14]!a}", {name if k == names[4] else k: v for k, v in header.items()})
    for name in names:
        less = {k: v for k, v in small.tensors_hf().items() if k != name}
        yield directory(f"12 without-{name}", weights=small.safetensors_bytes(*small.safetensors_header(less)))


def index_lies():
    whole = small.safetensors_bytes(*small.safetensors_header(small.tensors_hf()))
    names = list(small.tensors_hf())

    def case(name, index, setup=None, says=""):
        def write(folder):
            path = small.write_directory(folder / "m", weights=False)
            raw = index if isinstance(index, bytes) else json.dumps(index).encode()
            (path / "model.safetensors.index.json").write_bytes(raw)
            (folder / "x").write_bytes(whole)
            if setup:
                setup(path)
            return path

        return Case(f"13 {name}", write, says=says)

    for i, name in enumerate(("../x", "/etc/passwd", "a/../../x", "..", ".", "", "a\\b", "\u0000", "sub/x", ".hidden", "x" * 5000, "model\n.safetensors")):
        yield case(f"outside-{i}", {"weight_map": dict.fromkeys(names, name)})
    for i, value in enumerate((5, None, [], {}, "x", {"a": 5}, {"a": None}, {"a": ["x"]})):
        yield case(f"map-{i}", {"weight_map": value}, says="index")
    for i, raw in enumerate((b"", b"{", b"[]", b"null", b'{"weight_map":{}', b"\xff\xfe", b"[" * 100000)):
        yield case(f"json-{i}", raw)
    yield case("missing", {"weight_map": dict.fromkeys(names, "model-00001-of-00002.safetensors")}, says="model-00001")
    yield case("many", {"weight_map": {f"t{i}": f"s{i}" for i in range(5000)}}, says="files")
    shard = {"weight_map": dict.fromkeys(names, "s.safetensors")}
    yield case("fifo", shard, lambda p: os.mkfifo(p / "s.safetensors"), "FIFO")
    yield case("folder", shard, lambda p: (p / "s.safetensors").mkdir(), "directory")
    yield case("device", shard, lambda p: (p / "s.safetensors").symlink_to("/dev/zero"), "device")
    yield case("dangling", shard, lambda p: (p / "s.safetensors").symlink_to("nowhere"), "s.safetensors")
    yield case("circle", shard, lambda p: (p / "s.safetensors").symlink_to("s.safetensors"), "s.safetensors")
    yield case("empty", shard, lambda p: (p / "s.safetensors").write_bytes(b""), "s.safetensors")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "generation_config.json"):
        for what, make in (("fifo", os.mkfifo), ("folder", os.mkdir), ("device", lambda p: os.symlink("/dev/zero", p)), ("empty", lambda p: open(p, "w").close())):  # fmt: skip

            def write(folder, name=name, make=make):
                path = small.write_directory(folder / "m")
                (path / name).unlink(missing_ok=True)
                make(path / name)
                return path

            yield Case(f"13 {name}-{what}", write, fails=not (name == "tokenizer_config.json" and what == "empty"))
    for what, make in (("fifo", os.mkfifo), ("folder", os.mkdir), ("device", lambda p: os.symlink("/dev/zero", p)), ("nothing", lambda p: None), ("full", lambda p: os.symlink("/dev/full", p))):  # fmt: skip

        def write(folder, make=make):
            make(folder / "m.gguf")
            return folder / "m.gguf"

        yield Case(f"13 gguf-{what}", write)


def configs():
    ints = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
            "max_position_embeddings")  # fmt: skip
    for key in ints:
        for value in (0, -1, 2**31, 2**31 - 1, 2**63 - 1, -(2**63), 1.5, "16", [], {}, True, 3, 1e300):
            fine = value == 3 and key == "max_position_embeddings"
            yield directory(f"15 {key}-{value}", config=small.CONFIG | {key: value}, fails=not fine)
        for raw in ("99999999999999999999", "1e400", "-0", "NaN", "Infinity", "0x10", "01"):
            text = json.dumps(small.CONFIG | {key: "RAW"}).replace('"RAW"', raw)
            yield directory(f"15 {key}-{raw}", config=text.encode())
    for key in ("rms_norm_eps", "rope_theta"):
        for value in (-1, 1e308, "x", [], 2**63, True):
            yield directory(f"15 {key}-{value}", config=small.CONFIG | {key: value}, fails=False)
        for raw in ("NaN", "Infinity", "-Infinity", "1e999"):
            yield directory(f"15 {key}-{raw}", config=json.dumps(small.CONFIG | {key: "RAW"}).replace('"RAW"', raw).encode())
    for i, heads in enumerate(((3, 2), (2, 3), (4, 3), (1, 2))):
        yield directory(f"15 heads-{i}", config=small.CONFIG | {"num_attention_heads": heads[0], "num_key_value_heads": heads[1]})
    for i, arch in enumerate(([], [5], "LlamaForCausalLM", ["MambaForCausalLM"], ["A" * 2000], ["\n\x1b[2J"], {}, [["LlamaForCausalLM"]])):
        yield directory(f"15 architectures-{i}", config=small.CONFIG | {"architectures": arch, "model_type": "x"})
    scalings = (
        {"type": "linear"}, {"type": "linear", "factor": 0}, {"type": "linear", "factor": -1}, {"type": "linear", "factor": "2"}, {"type": "x" * 900},
        {"type": 5}, {"rope_type": "llama3", "factor": 8}, {"rope_type": "yarn", "factor": -4}, {"rope_type": "longrope", "short_factor": [1], "long_factor": [1]},
        {"rope_type": "longrope", "short_factor": ["a"] * 8, "long_factor": [1.0] * 8}, {"rope_type": "longrope", "short_factor": [0.0] * 8, "long_factor": [1.0] * 8},
        [], "x", 5, {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1, "original_max_position_embeddings": 32},
        {"rope_type": "longrope", "short_factor": [1.0] * 100000, "long_factor": [1.0] * 100000},
    )  # fmt: skip
    for i, scaling in enumerate(scalings):
        yield directory(f"15 scaling-{i}", config=small.CONFIG | {"rope_scaling": scaling}, fails=scaling != [])
    quants = ({"quant_method": "bitsandbytes"}, {"quant_method": 5}, {}, {"quant_method": "gptq"}, {"quant_method": "gptq", "bits": 3, "group_size": 128},
              {"quant_method": "awq", "bits": 4, "group_size": 0}, {"quant_method": "fp8", "weight_block_size": [0, 128]},
              {"quant_method": "fp8", "weight_block_size": [128, 2**32 + 128]}, {"quant_method": "fp8", "weight_block_size": [2**32 + 128, 128]}, {"quant_method": "q" * 3000},
              {"quant_method": "gptq", "bits": 4, "group_size": -5}, {"quant_method": "gptq", "bits": 4, "group_size": 2**40}, [], "gptq")  # fmt: skip
    for i, quant in enumerate(quants):
        yield directory(f"15 quant-{i}", config=small.CONFIG | {"quantization_config": quant}, fails=quant not in ({}, [], {"quant_method": "gptq"}))
    for i, raw in enumerate((b"", b"{}", b"[]", b"null", b"5", b"\"x\"", b"{" * 100, b"[" * 100000, b"\xff\xfe{\0}\0", b"{\"a\":\"\\ud800\"}", b"\0" * 100,
                             b'{"hidden_size":1,"hidden_size":2}', b" " * 1000000, b'"' + b"x" * 100000)):  # fmt: skip
        yield directory(f"15 json-{i}", "", config=raw)
    for key, value in (("eos_token_id", -1), ("eos_token_id", [2**40]), ("eos_token_id", "x"), ("bos_token_id", -5), ("eos_token_id", list(range(100))),
                       ("hidden_act", "relu"), ("hidden_act", 5), ("sliding_window", -1), ("sliding_window", "x"), ("attention_bias", "yes"),
                       ("tie_word_embeddings", 1), ("layer_types", ["x"]), ("layer_types", 5), ("mlp_bias", [])):  # fmt: skip
        yield directory(f"15 {key}-{str(value)[:12]}", config=small.CONFIG | {key: value}, fails=False)


def bad_numbers():
    header, n = small.safetensors_header(small.tensors_hf())
    patterns = {"nan": 0x7FC0, "nan-negative": 0xFFC0, "signalling": 0x7F81, "inf": 0x7F80, "inf-negative": 0xFF80}
    for name in small.tensors_hf():
        for what, bits in patterns.items():
            begin, end = header[name]["data_offsets"]
            for at in (begin, (begin + end) // 2 & ~1, end - 2):
                data = bytearray(n)
                data[at : at + 2] = struct.pack("<H", bits)
                yield directory(f"16 {name}-{what}-{at}", "holds NaN or infinity",
                                weights=small.safetensors_bytes(header, bytes(data)))  # fmt: skip
    for kind, at, size, bits in ((0, 0, 4, 0x7FC00000), (0, 4, 4, 0xFF800000), (1, 0, 2, 0x7C00), (30, 2, 2, 0x7F80), (8, 0, 2, 0x7E00), (2, 0, 2, 0xFC00),
                                 (3, 2, 2, 0x7C01), (6, 0, 2, 0x7C00), (7, 2, 2, 0xFE00), (20, 0, 2, 0x7C00)):  # fmt: skip
        for which in (0, 4, 8):
            g = gguf_model(matrix=kind)
            data = bytearray(small.tensor_bytes(kind, g.tensors[which][1]))
            data[at : at + size] = bits.to_bytes(size, "little")
            g.tensors[which][3] = bytes(data)
            yield gguf(f"16 type{kind}-{which}", g, g.tensors[which][0])


# ---------------------------------------------------------------- tokenizers: 17-24
def tokenizers():
    base = small.tokenizer_json()
    vocab = base["model"]["vocab"]

    def tok(name, says="", fails=True, **changed):
        return directory(name, says, tokenizer=small.tokenizer_json(**changed), weights=False, command="tokenize", fails=fails)

    def raw(name, text, says="", fails=True):
        return directory(name, says, tokenizer=text, weights=False, command="tokenize", fails=fails)

    for i, merges in enumerate((["a b", "a" * 200000 + " b"], ["a z"], [""], ["ab"], [" "], [5], [["a"]], [["a", "b", "c"]], [["a", 5]], "a b", {"a": "b"}, 5,
                                ["a b c"], ["a  b"], [None], [["a", "b" * 100000]])):  # fmt: skip
        yield tok(f"17 merges-{i}", "merge", model={"merges": merges})
    for i, add in enumerate(({"z": -1}, {"z": 2**31}, {"z": 2**63 - 1}, {"z": 1.5}, {"z": "16"}, {"z": None}, {"z": 3}, {"z": 10**8}, {"z": 1e300}, {"z": []})):
        yield tok(f"19 vocab-{i}", model={"vocab": vocab | add}, fails=add != {"z": 10**8})
    for i, value in enumerate(([], 5, None, "x", {}, [["a", 1]], {"a": {"b": 1}})):
        yield tok(f"19 vocab-kind-{i}", model={"vocab": value, "merges": []}, fails=value != {})
    text = json.dumps(base)
    yield raw("19 twice", text.replace('"a": 3', '"a": 3, "a": 4').encode())
    yield raw("19 big", text.replace('"a": 3', '"a": 99999999999999999999999').encode())
    chars = {"normalizer": None, "pre_tokenizer": None, "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}}
    for i, token in enumerate(("<0x-1>", "<0x100>", "<0xGG>", "<0x>", "<0x0>", "<0x0a>", "<0x00", "0x00>")):
        model = {"vocab": {"a": 0, token: 1, "<unk>": 2}, "merges": [], "byte_fallback": True, "unk_token": "<unk>"}
        yield tok(f"20 byte-{i}", added_tokens=[], model=model, fails=False, **chars)
    for i, pattern in enumerate(("(", "[", "a{2,1}", "\\", "(?<n>a)(?<n>b)", "[z-a]", "\\p{Xyz}", "*a", "(?", "(?P<", "\\x{110000}", "a" * 70000, "(?1)", "(?R)",
                                 "(" * 300 + ")" * 300, "(" * 50000, "[[:foo:]]", "\\g{9}", "(?C)", "(*COMMIT)", "(?{code})", "\\Q", "x{99999}", "(?:a{1000}){1000}",
                                 "\\N{U+1}", "\\K", "(?=")):  # fmt: skip
        pre = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        yield tok(f"21 regex-{i}", pre_tokenizer=pre, fails=False)
    for i, pattern in enumerate(("(a+)+$", "(a|a)*$", "(a*)*b", "(.*)*x", "(?:a?){30}a{30}", "(a|aa)+$", "^(([a-z])+.)+[A-Z]$", "(?:.*?){20}x")):
        pre = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        yield tok(f"21 exponential-{i}", pre_tokenizer=pre, fails=False)
        step = {"type": "Replace", "pattern": {"Regex": pattern}, "content": "b"}
        yield tok(f"21 replace-{i}", normalizer=step, fails=False)
    added = ({"id": 20, "content": ""}, {"id": 20, "content": "x" * 1_000_000}, {"id": -1, "content": "x"}, {"id": 2**40, "content": "x"}, {"id": "1", "content": "x"},
             {"content": "x"}, {"id": 20}, {"id": 20, "content": 5}, {"id": 3, "content": "other"}, {"id": 20, "content": "\ud800"}, {"id": 20, "content": "x", "lstrip": 1},
             5, None, [], {"id": 10**9, "content": "x"})  # fmt: skip
    for i, token in enumerate(added):
        text = json.dumps(small.tokenizer_json(added_tokens=[token]))
        yield raw(f"22 added-{i}", text.encode(), fails=False)
    yield tok("22 many", added_tokens=[{"id": 20 + i, "content": f"<t{i}>"} for i in range(20000)], fails=False)
    yield tok("22 prefixes", added_tokens=[{"id": 20 + i, "content": "a" * (i + 1)} for i in range(2000)], fails=False)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        for i, value in enumerate(({"type": "Unknown" * 200}, {"type": 5}, {}, [], 5, "NFC", {"type": "Sequence"}, {"type": "BertNormalizer"}, {"type": "\n\x1b[2J"})):
            yield tok(f"21 {part}-{i}", **{part: value})
        for depth in (20, 150, 5000):
            key = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "post_processor": "processors", "decoder": "decoders"}[part]
            nested = '{"type":"Sequence","%s":[' % key * depth + "]}" * depth
            text = json.dumps(small.tokenizer_json(**{part: "RAW"})).replace('"RAW"', nested)
            yield raw(f"21 {part}-depth-{depth}", text.encode())
    for i, text in enumerate((b"", b"{}", b"[]", b"null", b"{" * 100, b"[" * 1000000, b"\xff\xfe", b'{"model":5}', b'{"model":{"type":"WordPiece"}}',
                              b'{"model":{"type":"BPE"}}', b'{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.5}}', b"\0" * 50)):  # fmt: skip
        yield raw(f"18 json-{i}", text, fails=i != 9)
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1]]}
    for i, change in enumerate(({"unk_id": 5}, {"unk_id": -1}, {"unk_id": "0"}, {"vocab": [["a", "x"]]}, {"vocab": [["a"]]}, {"vocab": [[5, 1]]}, {"vocab": {}},
                                {"vocab": []}, {"vocab": [["a", -1], ["a", -2]]}, {"vocab": [["", 1]]}, {"unk_id": None})):  # fmt: skip
        text = json.dumps(small.tokenizer_json() | {"added_tokens": [], "pre_tokenizer": None, "decoder": None, "normalizer": None, "model": unigram | change})
        yield raw(f"19 unigram-{i}", text.encode(), fails=False)
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [1]}}}
    for i, change in enumerate(({"single": 5}, {"single": []}, {"single": [5]}, {"single": [{}]}, {"special_tokens": {}}, {"special_tokens": {"<s>": {"ids": [99]}}},
                                {"special_tokens": {"<s>": {"ids": [-1]}}}, {"special_tokens": {"<s>": {"ids": list(range(3)) * 1000}}}, {"special_tokens": {"<s>": {}}})):  # fmt: skip
        yield tok(f"19 template-{i}", post_processor=template | change)
    configs = ({"bos_token": 5}, {"bos_token": {"content": 5}}, {"add_bos_token": "yes"}, {"added_tokens_decoder": []}, {"added_tokens_decoder": {"x": {"content": "a"}}},
               {"added_tokens_decoder": {"-1": {"content": "a"}}}, {"added_tokens_decoder": {"99999999999": {"content": "a"}}}, {"eos_token": "nowhere"},
               {"added_tokens_decoder": {"20": {"content": ""}}}, {"added_tokens_decoder": {"20": 5}})  # fmt: skip
    for i, change in enumerate(configs):
        yield directory(f"22 config-{i}", tokenizer_config=small.TOKENIZER_CONFIG | change, weights=False, command="tokenize", fails=False)
    for i, text in enumerate((b"{", b"[]", b"\xff", b"5", b"[" * 100000)):
        yield directory(f"22 config-json-{i}", tokenizer_config=text, weights=False, command="tokenize", fails=i in (0, 2, 4))


# texts that are hard on a tokenizer: 18, 23, 24
TEXTS = {
    "23 marks": "a" + "\u0301\u0323" * 32000, "23 marks-alone": "\u0345" * 65000, "23 hangul": "\u1100\u1161\u11a8" * 20000, "24 word": "a" * 1_000_000,
    "24 words": "ab" * 500_000, "24 digits": "1" * 1_000_000, "24 spaces": " " * 1_000_000, "24 newlines": "\n" * 1_000_000, "24 emoji": "\U0001f468\u200d" * 100_000,
    "24 letters": "\u4e2d" * 300_000, "18 missing": "xyz \u00e9 \u4e2d", "24 quotes": "'s" * 300_000,
}  # fmt: skip


# ---------------------------------------------------------------- templates: 25-30
TEMPLATES = {
    "25 range": "{% for i in range(10**9) %}{% for j in range(10**9) %}{{ i }}{% endfor %}{% endfor %}",
    "25 range-list": "{{ range(10**9) | list | length }}", "25 range-huge": "{{ range(10**18, 10**19) | length }}{{ 5 + 'a' }}", "25 range-sum": "{{ range(10**9) | sum }}",
    "25 nested": "{% for a in range(999) %}{% for b in range(999) %}{% for c in range(999) %}{% endfor %}{% endfor %}{% endfor %}",
    "25 power": "{{ 10 ** 10 ** 10 }}", "25 power-2": "{{ (2 ** 63) ** 9999999 }}", "25 shift": "{{ 9999999999999999999999 * 9999999999999999 }}{{ x.y.z }}",
    "25 recursive-loop": "{% for m in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
    "26 doubling": "{% set ns = namespace(s='x' * 1000) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "26 times": "{{ 'x' * 10**9 }}", "26 times-list": "{{ [1] * 10**9 }}", "26 join": "{{ (range(100000) | list) | join('x' * 10000) }}",
    "26 format": "{{ '%1000000000d' % 1 }}", "26 center": "{{ 'x' | center(10**9) }}", "26 ljust": "{{ '{:>1000000000}'.format('x') }}",
    "26 indent": "{{ ('\n' * 100000) | indent(100000) }}", "26 replace": "{{ ('x' * 1000000).replace('x', 'x' * 1000) }}",
    "26 output": "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}", "26 tilde": "{% set s = 'x' * 1000000 %}{{ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s }}",
    "26 tojson": "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}",
    "26 wordwrap": "{{ ('x ' * 1000000) | wordwrap(1) | length }}{{ 'x' * 20000000 }}", "26 zfill": "{{ '1'.zfill(10**9) }}",
    "27 macro": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "27 mutual": "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
    "27 call": "{% macro f() %}{% call f() %}{% endcall %}{% endmacro %}{{ f() }}", "27 self": "{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns | tojson }}",
    "27 caller": "{% macro f() %}{{ caller() }}{{ f() }}{% endmacro %}{% call f() %}x{% endcall %}",
    "28 split": "{{ 'abc'.split('') }}", "28 rsplit": "{{ 'abc'.rsplit('') }}", "28 replace": "{{ ('x' * 10000000).replace('', 'y' * 10) }}", "28 partition": "{{ 'a'.partition('') }}",
    "29 parentheses": "{{ " + "(" * 100_000 + "1" + ")" * 100_000 + " }}", "29 brackets": "{{ " + "[" * 100_000 + "]" * 100_000 + " }}", "29 open": "{{ " + "(" * 100_000,
    "29 nots": "{{ " + "not " * 100_000 + "1 }}", "29 minus": "{{ " + "-" * 100_000 + "1 }}", "29 ifs": "{% if 1 %}" * 100_000 + "{% endif %}" * 100_000,
    "29 dots": "{{ a" + ".b" * 100_000 + " }}", "29 filters": "{{ 1" + "|abs" * 100_000 + "|nothing }}", "29 dicts": "{{ " + "{1:" * 100_000 + "1" + "}" * 100_000 + " }}",
    "29 elses": "{{ " + "1 if 0 else " * 100_000 + "x.y.z }}", "29 powers": "{{ " + "2**" * 100_000 + "2 }}", "29 calls": "{{ range" + "(1)" * 100_000 + " }}",
    "30 class": "{{ ''.__class__.__mro__[1].__subclasses__() }}", "30 globals": "{{ raise_exception.__globals__ }}", "30 init": "{{ messages.__init__.__globals__['os'] }}",
    "30 attr": "{{ '' | attr('__class__') | attr('__mro__') | list }}", "30 import": "{% import 'os' as os %}{{ os }}", "30 include": "{% include '/etc/passwd' %}",
    "30 extends": "{% extends 'x' %}", "30 format": "{{ '{0.__class__.__init__}'.format(1) }}", "30 self": "{{ self.__init__.__globals__ }}", "30 open": "{{ open('/etc/passwd').read() }}",
    "29 unclosed": "{{ 1", "29 unclosed-block": "{% if x %}", "29 no-start": "{% endif %}", "29 unknown": "{% nothing %}", "29 string": "{{ 'abc }}", "29 comment": "{# x",
    "29 nul": "{{ '\0' \0 }}", "29 raise": "{{ raise_exception('no' * 100000) }}", "29 raise-lines": "{{ raise_exception('a\nb\n\x1b[2J') }}", "29 divide": "{{ 1 // 0 }}",
    "29 modulo": "{{ 1 % 0 }}", "29 types": "{{ 1 + 'a' }}", "29 undefined": "{{ a.b.c }}", "29 filter": "{{ 1 | nothing }}", "29 test": "{{ 1 is nothing }}",
    "29 call-number": "{{ 5() }}", "29 args": "{{ range(1, 2, 3, 4, 5) }}", "29 step": "{{ range(1, 5, 0) }}", "29 break": "{% break %}", "29 slice": "{{ 'abc'[::0] }}",
}  # fmt: skip
HARMLESS = {"25 power", "25 power-2", "25 range-huge", "30 self", "30 attr", "27 self", "30 init", "30 class", "30 globals", "30 format", "28 replace", "29 dots",
            "29 nul", "26 indent", "26 ljust", "26 center", "29 minus", "29 nots"}  # what jinja2 itself may print something for  # fmt: skip


def templates():
    for name, text in TEMPLATES.items():
        config = small.TOKENIZER_CONFIG | {"chat_template": text}
        yield directory(name, tokenizer_config=config, weights=False, command="template", fails=name not in HARMLESS)
    for i, value in enumerate((5, [], {}, [{"name": "default"}], [{"name": 5, "template": "x"}], [5], "")):
        config = small.TOKENIZER_CONFIG | {"chat_template": value}
        yield directory(f"29 value-{i}", tokenizer_config=config, weights=False, command="template", fails=value != "")


# ---------------------------------------------------------------- bytes cut off and changed
def damaged(name, whole, make, n, seed, until=None):
    """n cuts and 2 n changes of whole, spread over its first `until` bytes."""
    draw = random.Random(seed)
    until = until or len(whole)
    for i in range(n):
        at = i * until // n
        yield make(f"01 {name}-cut-{at}", whole[:at], False)
        for k in range(2):
            at = (i * until + draw.randrange(until)) // n if k else draw.randrange(until)
            mask = 1 << draw.randrange(8) if draw.random() < 0.7 else draw.randrange(1, 256)
            yield make(f"01 {name}-flip-{at}-{mask}", whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :], False)


def bytes_changed(n):
    for arch in ("llama", "qwen3"):
        g = gguf_model(arch, 2)
        whole = g.bytes()
        head = len(whole) - sum(len(t[3]) for t in g.tensors)
        yield from damaged(f"gguf-{arch}", whole, lambda name, raw, fails: gguf(name, raw, fails=fails), n, 1, head)
    weights = small.safetensors_bytes(*small.safetensors_header(small.tensors_hf()))
    head = 8 + struct.unpack("<Q", weights[:8])[0]
    yield from damaged("safetensors", weights, lambda name, raw, fails: directory(name, weights=raw, fails=fails), n, 2, head)
    config = json.dumps(small.CONFIG).encode()
    yield from damaged("config", config, lambda name, raw, fails: directory(name, config=raw, fails=fails), n, 3)
    text = json.dumps(small.tokenizer_json()).encode()
    yield from damaged("tokenizer", text, lambda name, raw, fails: directory(name, tokenizer=raw, weights=False, command="tokenize", fails=fails), n, 4)
    text = json.dumps(small.TOKENIZER_CONFIG).encode()
    yield from damaged("tokenizer-config", text, lambda name, raw, fails: directory(name, tokenizer_config=raw, weights=False, command="template", fails=fails), n, 5)


def generate(n_damaged):
    for part in (versions, counts_and_lengths, alignments, shapes, places, gguf_values, safetensors_lies, index_lies, configs, bad_numbers, tokenizers, templates):
        yield from part()
    yield from bytes_changed(n_damaged)
