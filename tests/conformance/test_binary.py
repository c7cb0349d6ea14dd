"""The binary needs the C library and nothing else: by its list of libraries, and by running it where there is
nothing else."""

import os
import re
import shutil
import subprocess

import pytest

CHROOT = shutil.which("chroot", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") or "chroot"

# every file of Debian's libc6 that a program may name
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2",
         "ld-linux-aarch64.so.1"}  # fmt: skip


def needed(path):
    text = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.+)\]", text))


def test_needs_only_glibc(quire):
    names = needed(quire.path)
    assert "libc.so.6" in names
    assert names <= GLIBC


def test_needs_no_newer_glibc_than_debian_12(quire):
    text = subprocess.run(["readelf", "-V", quire.path], check=True, capture_output=True, text=True).stdout
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", text)}
    assert versions and max(versions) <= (2, 36)


@pytest.fixture
def bare_root(quire, tmp_path):
    """A folder with the binary and the files of glibc that it asks for, and not so much as /proc or /tmp."""
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    text = subprocess.run(["ldd", quire.path], check=True, capture_output=True, text=True).stdout
    files = re.findall(r"(/\S+\.so\S*) \(0x", text)
    assert files
    for file in files:
        assert os.path.basename(file) in GLIBC
        target = tmp_path / file.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(file), target)
    shutil.copy(quire.path, tmp_path / "quire")
    probe = subprocess.run([CHROOT, tmp_path, "/quire", "version"], capture_output=True, text=True, timeout=60)
    if probe.returncode == 125 and "Operation not permitted" in probe.stderr:
        pytest.skip("this container forbids chroot")
    return tmp_path


def in_root(root, *args):
    command = [CHROOT, root, "/quire", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={}, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_runs_in_an_empty_root(bare_root):
    assert "quire" in in_root(bare_root, "version")
    in_root(bare_root, "synth", "tiny-llama", "/tiny.gguf", "--seed", "1")
    ids = ["--prompt-ids", "1,2,3", "--max-tokens", "4", "--temperature", "0", "--ignore-eos", "--json"]
    assert '"token_ids"' in in_root(bare_root, "complete", "/tiny.gguf", *ids)


def test_answers_in_an_empty_root(bare_root, default_model):
    shutil.copy(default_model, bare_root / "m.gguf")
    question = ["--chat", "-p", "What is the capital of France?", "--temperature", "0", "--max-tokens", "16"]
    assert "Paris" in in_root(bare_root, "complete", "/m.gguf", *question)


def test_fetch_says_that_it_needs_libcurl(bare_root):
    variables = {"HF_HOME": "/hf", "HF_ENDPOINT": "http://127.0.0.1:9"}
    command = [CHROOT, bare_root, "/quire", "fetch", "Org/Name"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=variables)
    assert done.returncode == 1 and "libcurl.so.4" in done.stderr and len(done.stderr) < 300
