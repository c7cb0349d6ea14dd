#!/usr/bin/env python3
"""Writes the first inputs of the fuzzers, tests/fuzz/corpus/NAME/seed-*: small files of every kind that a target reads.
Other files there were found by the fuzzers (crash-*: inputs that once broke quire; they are run by every `make fuzz`).

    make_seeds.py [FOLDER]      default: corpus beside this file
"""

import base64
import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "conformance"))
import chat_templates  # noqa: E402
import charsmap  # noqa: E402
import jinja_cases  # noqa: E402
import small_files as small  # noqa: E402
from small_files import ARRAY, BOOL, F32, STRING, U32  # noqa: E402


MAP = charsmap.charsmap({"ﬁ": "fi", "A": "a", "e\u0301": "é", "①": "1", "\u00a0": " ", "ab": "c"})


def dump(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def gguf_seeds():
    for arch in ("llama", "qwen2", "qwen3"):
        yield arch, small.gguf_model(arch, 2).bytes()
    kinds = (0, 1, 3, 6, 7, 8, 20, 30, 39)
    g = small.gguf_model("llama", 2, None)
    for i, kind in enumerate(kinds):  # one matrix of each; the k-quants' blocks are longer than these rows
        tensor = g.tensors[4 + i] if 4 + i < len(g.tensors) else g.tensors[0]
        tensor[2], tensor[3] = kind, bytes(1 + i % 50 for i in range(small.tensor_bytes(kind, tensor[1])))
    yield "types", g.bytes()
    for arch in ("gemma2", "gemma3", "phi3"):
        scaling = {"rope.scaling.type": "yarn"} if arch == "phi3" else {}
        g = small.gguf_model(arch, 2, "llama")
        for name, value in scaling.items():
            g.key(f"{arch}.{name}", STRING, value)
        for name in ("rope.scaling.factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow", "rope.scaling.attn_factor",
                     "rope.scaling.yarn_ext_factor", "attn_logit_softcapping", "final_logit_softcapping", "rope.freq_base_swa"):  # fmt: skip
            if arch == "gemma2" or "softcapping" not in name:
                g.key(f"{arch}.{name}", F32, 1.0)
        if arch == "phi3":  # gate and up are one matrix there
            g.tensors = [t for t in g.tensors if "ffn_gate" not in t[0]]
            up = next(t for t in g.tensors if "ffn_up" in t[0])
            up[1], up[3] = [32, 64], 2 * up[3]
        ones = {"gemma2": {"post_attention_norm": 32, "post_ffw_norm": 32},
                "gemma3": {"post_attention_norm": 32, "post_ffw_norm": 32, "attn_q_norm": 16, "attn_k_norm": 16}}  # fmt: skip
        for name, n in ones.get(arch, {}).items():
            g.tensor(f"blk.0.{name}.weight", [n], 0, struct.pack(f"<{n}f", *[1.0] * n))
        g.key(f"{arch}.rope.scaling.original_context_length", U32, 32).key(f"{arch}.attention.sliding_window", U32, 16)
        yield arch, g.bytes()
    for model in ("gpt2", "llama", "t5"):
        g = small.gguf_tokenizer(small.Gguf(), model)
        g.key("general.architecture", STRING, "gemma2").key("tokenizer.ggml.add_eos_token", BOOL, False)
        yield f"text-{model}", g.bytes()
    g = small.gguf_tokenizer(small.Gguf(), "t5").key("tokenizer.ggml.precompiled_charsmap", ARRAY, (1, struct.unpack(f"{len(MAP)}b", MAP)))
    yield "text-charsmap", g.key("tokenizer.ggml.remove_extra_whitespaces", BOOL, True).bytes()
    parts = []
    for i in range(2):
        whole = small.gguf_model("llama", 2, None)
        g = small.Gguf()
        g.keys = whole.keys if i == 0 else []
        g.tensors = whole.tensors[i::2]
        g.key("split.no", 2, i).key("split.count", 2, 2).key("split.tensors.count", 5, len(whole.tensors))
        parts.append(g.bytes())
    yield "split", b"SPLT" + struct.pack("<I", len(parts[0])) + parts[0] + parts[1]
    g = small.Gguf(version=2)
    for kind, value in ((0, 1), (1, -1), (2, 3), (3, -3), (4, 5), (5, -5), (6, 1.5), (7, True), (8, "x"), (10, 1), (11, -1), (12, 2.5)):
        g.key(f"k{kind}", kind, value).key(f"a{kind}", ARRAY, (kind, [value, value]))
    yield "kinds", g.key("general.alignment", U32, 64).key("f", F32, 0.5).bytes()


def safetensors_seeds():
    def seed(config, shapes, dtype="BF16"):
        header, n = small.safetensors_header(shapes, dtype)
        data = bytearray(small.safetensors_bytes(b"", n)[8:])
        for name, tensor in header.items():
            if name.endswith("g_idx"):  # all inputs in the one group
                begin, end = tensor["data_offsets"]
                data[begin:end] = bytes(end - begin)
        return bytes([config]) + dump(header) + b"\0" + data

    for dtype in ("F32", "F16", "BF16"):
        yield dtype.lower(), seed(0, small.tensors_hf(), dtype)
    yield "qwen3", seed(1, small.tensors_hf("qwen3"))
    merged = {n: s for n, s in small.tensors_hf().items() if not any(p in n for p in ("q_proj", "k_proj", "v_proj", "gate", "up_"))}
    merged["model.layers.0.self_attn.qkv_proj.weight"] = [48, 16]
    merged["model.layers.0.mlp.gate_up_proj.weight"] = [32, 16]
    yield "phi3", seed(2, merged)
    for config, method in ((3, "gptq"), (4, "gptq"), (5, "awq"), (6, "fp8")):
        yield f"{method}{config}", seed(config, small.quantised_shapes(method), "F16")
    raw = small.safetensors_bytes(*small.safetensors_header(small.tensors_hf()))
    yield "raw", bytes([0x80]) + raw
    yield "empty", b"\x80\2\0\0\0\0\0\0\0{}"


def config_seeds():
    base = small.CONFIG
    yield "llama", dump(base) + b"\0" + dump({"temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.1, "eos_token_id": [2, 3]})
    for name, model in (("Qwen2ForCausalLM", "qwen2"), ("Qwen3ForCausalLM", "qwen3")):
        yield model, dump(base | {"architectures": [name], "model_type": model, "use_sliding_window": True, "sliding_window": 8,
                                  "max_window_layers": 1, "layer_types": ["full_attention"]})  # fmt: skip
    for name, model in (("Gemma2ForCausalLM", "gemma2"), ("Gemma3ForCausalLM", "gemma3_text")):
        yield model, dump(base | {
            "architectures": [name], "model_type": model, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "sliding_window": 8, "sliding_window_pattern": 6,
            "rope_local_base_freq": 10000.0})  # fmt: skip
    yield "gemma3", dump({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": base | {"hidden_activation": "gelu_pytorch_tanh"}})
    yield "phi3", dump(base | {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "original_max_position_embeddings": 32,
                               "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}})  # fmt: skip
    for scaling in (
        {"rope_type": "linear", "factor": 2.0}, {"type": "dynamic", "factor": 2.0},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
        {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.0,
         "original_max_position_embeddings": 32, "truncate": False}, {"type": "mrope", "mrope_section": [2, 3, 3]},
    ):  # fmt: skip
        yield "rope-" + scaling.get("rope_type", scaling.get("type")), dump(base | {"rope_scaling": scaling})
    yield "rope-parameters", dump(base | {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
                                          "dtype": "bfloat16"})  # fmt: skip
    for quant in (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True, "checkpoint_format": "gptq_v2"},
        {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm"},
        {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
        {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}},
    ):
        yield "quant-" + quant["quant_method"], dump(base | {"quantization_config": quant})


def tokenizer_seeds():
    yield "bytes", dump(small.tokenizer_json()) + b"\0" + dump(small.TOKENIZER_CONFIG)
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}  # fmt: skip
    yield "template", dump(small.tokenizer_json(post_processor={"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]}))
    vocab = {"<unk>": 0, "a": 3, "b": 4, "ab": 5, "▁": 6, "▁a": 7} | {f"<0x{b:02X}>": 10 + i for i, b in enumerate((0x0A, 0xCC, 0x81, 0xC3))}
    spaces = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    back = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]  # fmt: skip
    yield "chars", dump(small.tokenizer_json(
        normalizer={"type": "Sequence", "normalizers": spaces}, pre_tokenizer=None, decoder={"type": "Sequence", "decoders": back},
        added_tokens=[{"id": 1, "content": "<s>", "lstrip": True, "rstrip": True, "single_word": True, "normalized": True}],
        model={"vocab": vocab, "merges": [["a", "b"], ["▁", "a"]], "byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}))  # fmt: skip
    normal = [{"type": t} for t in ("NFKC", "NFD", "NFKD", "Lowercase")] + [{"type": "Strip", "strip_left": True, "strip_right": True},
              {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]  # fmt: skip
    pre = [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Whitespace"},
           {"type": "Digits", "individual_digits": False},
           {"type": "Split", "pattern": {"String": "b"}, "behavior": "MergedWithNext", "invert": True},
           {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}]  # fmt: skip
    unigram = small.tokenizer_json(normalizer={"type": "Sequence", "normalizers": normal}, pre_tokenizer={"type": "Sequence", "pretokenizers": pre},
                                   decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}, post_processor=None,
                                   added_tokens=[])  # fmt: skip
    unigram["model"] = {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                        "vocab": [["<unk>", 0.0], ["▁", -2.5], ["a", -3], ["▁ab", -10.0], ["b", -4.25]]}  # fmt: skip
    yield "unigram", dump(unigram)
    steps = [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(MAP).decode()}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    yield "charsmap", dump(unigram | {"normalizer": {"type": "Sequence", "normalizers": steps}})


TEXTS = [
    "Hello, world! It's 12345 o'clock.\r\n\n  x\t y ", "Ünïcödé — naïve café e\u0301 \u1e9b\u0323 ﬁ", "中文字符 日本語テキスト 한국어",
    "مرحبا עברית ไทย हिन्दी", "👩‍👩‍👧‍👦🇺🇳☝🏽", "abcabcabc aaaaaaaaaaaaaaaa    a    a", "<s>a<|a|> b <|a|>word words word</s>",
    "a\0b\x01\x7f\u0085\u00a0\u2028\u200b\ufeff", "\U000e0100\ud7a3\u1100\u1161\u11a8" + "\u0301\u0323" * 30, "",
]  # fmt: skip


def encode_seeds():
    for style in range(4):
        for i, text in enumerate(TEXTS):
            if (i + style) % 2 == 0 or i < 2:
                yield f"{style}-{i}", bytes([style | (0x30 if i % 3 == 0 else 0)]) + text.encode()
    yield "bad-utf8", b"\0a\xff\xe2\x82 \xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xf0\x9f"


JINJA = [
    "{% set ns = namespace(n=0) %}{% for m in messages if m.role != 'x' %}{% set ns.n = ns.n + loop.index0 %}{{ loop.first }}{{ m['role'] | upper }}{% if loop.last %}{% break %}{% else %}{% continue %}{% endif %}{% else %}none{% endfor %}{{ ns.n }}",
    "{% macro f(a, b=2, *args, **kwargs) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{{ caller() if caller else '' }}{% endmacro %}{% call f(1, b='x') %}in{% endcall %}{{ f(3, 4, 5) }}",
    "{{ [1, 2.5, 'a', none, true] | tojson(indent=2) }}{{ {'a': [1], 'b': {'c': 2}} | dictsort }}{{ tools | tojson }}",
    "{{ 'a,b,c'.split(',') | join('-') }}{{ ' x '.strip() ~ 'abc'[::-1] ~ 'abc'[1:] }}{{ 'Hello'.replace('l', 'L', 1).title() }}{{ nums[-1] }}{{ 'x' * 3 }}{{ 7 // 2 }}{{ 7 % 3 }}{{ 2 ** 5 }}{{ -1.5 | abs }}",
    "{%- if x is defined and x is not none or nums is iterable -%} a {%- elif 'a' in 'abc' and not (1 > 2) -%} b {%- endif -%}{# c #}{% raw %}{{ }}{% endraw %}",
    "{{ range(1, 10, 3) | list }}{{ nums | sort(reverse=true) | first }}{{ messages | map(attribute='role') | unique | list }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ nums | sum }}{{ nums | max }}{{ 'a' | default('b', true) }}",
    "{{ raise_exception('no ' + bos_token) }}", "{% generation %}{{ strftime_now('%Y') | length }}{% endgeneration %}",
    "{% filter upper | trim %} x {% endfilter %}{% set y %}cap{% endset %}{{ y }}{{ '%s-%d' % ('a', 3) }}{{ '{} {x}'.format(1, x=2) }}",
    "{% for k, v in {'a': 1}.items() recursive %}{{ k }}{{ v }}{{ loop.cycle('o', 'e') }}{% endfor %}{{ dict(a=1) }}{{ (1, 2)[0] }}{{ messages[0].content | e }}",
    "{{ 3.0 | int }}{{ '12' | int + 1 }}{{ 1.23456 | round(2) }}{{ 'abc' | center(9) | replace(' ', '_') }}{{ 'a b' | wordcount }}{{ 'x' | indent(2, true) }}{{ [1, 2, 3] | batch(2) | list }}{{ [3, 1] | slice(2) | list }}",
]  # fmt: skip


def jinja_seeds():
    for i, template in enumerate(JINJA):
        yield f"all-{i}", template.encode()
    snippets = [line for line in jinja_cases.SNIPPETS.split("\n") if line]
    for i in range(0, len(snippets), 6):
        yield f"snippets-{i}", "\n".join(snippets[i : i + 6]).encode()
    for i, block in enumerate(jinja_cases.BLOCKS):
        yield f"block-{i}", block.encode()
    yield "variables", b"{{ a.b[0] }}{{ c }}\0" + dump({"a": {"b": [1]}, "c": "\u00e9"})
    for name, text in vars(chat_templates).items():
        if name.isupper() and isinstance(text, str) and "{%" in text:
            yield f"chat-{name.lower()}", text.encode()


def chat_seeds():
    for i, talk in enumerate(chat_templates.CONVERSATIONS.values()):
        yield f"talk-{i}", bytes([i % 2]) + dump(talk)
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    yield "parts", b"\1" + dump({"messages": [{"role": "user", "content": parts}], "documents": [{"title": "t", "text": "x"}],
                                 "chat_template_kwargs": {"enable_thinking": False}, "add_generation_prompt": False})  # fmt: skip


SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 120}, "b": {"type": "string", "maxLength": 4}},
     "required": ["a"], "additionalProperties": False},
    {"type": "array", "items": {"anyOf": [{"type": "number", "exclusiveMinimum": -2.5}, {"const": None}]}, "minItems": 1, "maxItems": 3},
    {"$defs": {"t": {"type": "object", "properties": {"n": {"$ref": "#/$defs/t"}, "v": {"enum": ["x", 1, False]}}}}, "$ref": "#/$defs/t"},
    {"oneOf": [{"type": "string", "pattern": "^a+b?$"}, {"type": "string", "format": "date-time"}, {"type": "boolean"}]},
    {"allOf": [{"type": "object", "required": ["x"]}, {"properties": {"x": {"type": ["string", "null"], "minLength": 1}}, "minProperties": 1}]},
    {"type": "object", "patternProperties": {"^s": {"type": "string"}}, "additionalProperties": {"type": "integer", "multipleOf": 2}},
    {"type": "string", "format": "uuid"}, {"prefixItems": [{"type": "null"}], "items": False, "type": "array"}, True,
]  # fmt: skip
PATTERNS = ["^a+b{2,3}(c|d)?$", r"[^\d\s]\w*\.(?:x|y)+?", r"\u00e9|[\x41-\x5a]{1,4}", "(?=a)a|$^", "(a*)*|[]x[^]", r"^\d{4}-\d{2}$"]


def schema_seeds():
    for i, schema in enumerate(SCHEMAS):
        yield f"schema-{i}", b"\0" + dump(schema)
    for i, pattern in enumerate(PATTERNS):
        yield f"regex-{i}", b"\1" + pattern.encode()


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "corpus")
    for name, seeds in sorted(globals().items()):
        if not name.endswith("_seeds"):
            continue
        folder = root / name.removesuffix("_seeds")
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed-*"):
            old.unlink()
        for seed, data in seeds():
            (folder / f"seed-{seed}").write_bytes(data)


if __name__ == "__main__":
    main()
