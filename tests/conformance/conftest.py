"""What the conformance tests share: where the binary, the default model and the outside values are."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from server import Server

ROOT = Path(__file__).resolve().parents[2]


def default_model_path():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("QUIRE_MODEL") or Path(cache) / "quire" / "SmolLM2-135M-Instruct.Q4_1.gguf")


class Quire:
    """Runs the binary; every call has a time limit."""

    def __init__(self, path):
        self.path = path

    def run(self, *args, stdin=None, check=True, timeout=300, env=None):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        done = subprocess.run(
            [str(self.path), *map(str, args)],
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=timeout,
            env={**os.environ, **env} if env else None,
        )
        if check:
            assert done.returncode == 0, f"quire {args[0]}: exit {done.returncode}: {done.stderr.decode()[-2000:]}"
        return done

    def text(self, *args, **kwargs):
        return self.run(*args, **kwargs).stdout.decode()

    def json(self, *args, **kwargs):
        return json.loads(self.run(*args, **kwargs).stdout)


def client_program(name):
    """A program of requirements-clients.txt; the test is skipped where they are not installed."""
    found = Path(os.environ.get("QUIRE_CLIENTS") or ROOT / "build" / "venv-clients") / "bin" / name
    if not found.exists():
        pytest.skip(f"{found} is not installed: make clients")
    return found


@pytest.fixture(scope="session")
def quire():
    path = Path(os.environ.get("QUIRE") or ROOT / "build" / "quire")
    if not path.exists():
        pytest.fail(f"{path} is not built: run make")
    return Quire(path)


@pytest.fixture(scope="session")
def default_model():
    path = default_model_path()
    if not path.exists():
        pytest.skip(f"the default model is not at {path}: run make run")
    return path


@pytest.fixture(scope="module")
def server(quire, default_model):
    """`quire serve` with the default model, for all tests of a file."""
    running = Server(quire.path, default_model, "--max-num-seqs", 8, "--kv-cache-tokens", 16384)
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def shared():
    path = Path(os.environ.get("QUIRE_SHARED") or ROOT.parent / "shared")
    if not path.exists():
        pytest.skip(f"outside values are not at {path} (QUIRE_SHARED)")
    return path
