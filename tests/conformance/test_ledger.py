"""quire info says what a run will take; a run then takes it."""

import re
import subprocess
import time

import pytest


def resident_bytes(pid):
    """Anonymous and file pages that are in memory now."""
    status = open(f"/proc/{pid}/status").read()
    return sum(int(re.search(rf"{key}:\s+(\d+) kB", status)[1]) * 1024 for key in ("RssAnon", "RssFile"))


def test_resident_memory_is_what_the_ledger_says(quire, default_model):
    args = ["--max-model-len", "2048", "--threads", "2"]
    ledger = quire.json("info", default_model, *args, "--json")["ledger"]
    # A prompt that fills the context makes every page of the KV cache resident.
    process = subprocess.Popen(
        [str(quire.path), "chat", str(default_model), *args, "--temperature", "0", "-n", "4"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        process.stdin.write(b"one two three four five six seven eight nine ten " * 190 + b"\n")
        process.stdin.flush()
        assert process.stdout.readline(), process.stderr.read()
        time.sleep(0.2)
        measured = resident_bytes(process.pid)
    finally:
        process.kill()
        process.wait()
    assert measured == pytest.approx(ledger["total"], rel=0.03), ledger
