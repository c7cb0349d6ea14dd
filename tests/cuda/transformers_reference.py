#!/usr/bin/env python3
"""transformers_reference.py QUIRE DIR [SHAPE...] - what test_transformers compares the GPU with.

For each shape (without names: all three): `quire synth` writes a model with random weights to DIR/SHAPE; transformers runs it in fp32 (the reference) and in
bf16 over the same 364 ids, a prompt of 300 and 64 steps of one token. Beside the model lie ids.i32, logits.f32 [364, vocabulary]
and error.txt: the relative errors (norms) of transformers' own bf16 run, of the prompt and of the steps. Needs torch, transformers, a GPU.
"""
import os
import subprocess
import sys

import numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SHAPES = ("qwen2.5-1.5b", "qwen3-0.6b", "llama-3.2-1b")
N_PROMPT, N_DECODE = 300, 64


def run(path, dtype, ids):
    """Logits [364, vocabulary] in fp32: the prompt at once, then one token a step over the cache."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa").cuda().eval()
    with torch.inference_mode():
        out = model(ids[None, :N_PROMPT], use_cache=True)
        rows, cache = [out.logits[0].float().cpu()], out.past_key_values
        for i in range(N_PROMPT, N_PROMPT + N_DECODE):
            out = model(ids[None, i:i + 1], past_key_values=cache, use_cache=True)
            rows.append(out.logits[0].float().cpu())
            cache = out.past_key_values
    del model
    torch.cuda.empty_cache()
    return torch.cat(rows)


def error(got, want):
    return float((got.double() - want.double()).norm() / want.double().norm())


def main():
    quire, folder, *shapes = sys.argv[1:]
    torch.backends.cuda.matmul.allow_tf32 = False
    for shape in shapes or SHAPES:
        path = os.path.join(folder, shape)
        subprocess.run([quire, "synth", shape, path, "--overwrite"], check=True, stderr=subprocess.DEVNULL)
        vocabulary = AutoConfig.from_pretrained(path).vocab_size
        ids = torch.from_numpy(numpy.random.default_rng(7).integers(0, vocabulary, N_PROMPT + N_DECODE)).cuda()
        want, got = run(path, torch.float32, ids), run(path, torch.bfloat16, ids)
        errors = error(got[:N_PROMPT], want[:N_PROMPT]), error(got[N_PROMPT:], want[N_PROMPT:])
        ids.cpu().numpy().astype("<i4").tofile(os.path.join(path, "ids.i32"))
        want.numpy().astype("<f4").tofile(os.path.join(path, "logits.f32"))
        with open(os.path.join(path, "error.txt"), "w") as out:
            print(*errors, file=out)
        print(f"{shape}: transformers {errors[0]:.4f} {errors[1]:.4f} in bf16, torch {torch.__version__}", flush=True)


if __name__ == "__main__":
    main()
