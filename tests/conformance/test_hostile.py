"""Hostile files through the command line: exit status 1 or 2 (0 where a changed byte does no harm), one sentence under 400
characters, within 10 seconds and 1 GB, no sanitizer report."""

import collections
import concurrent.futures
import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import small_files as small

import hostile

LONG = bool(os.environ.get("QUIRE_LONG"))
N_DAMAGED = 150 if LONG else 8  # cuts of each kind of file; twice as many changed bytes
STRIDE = 1 if LONG else 2  # of the other cases every so manieth
SECONDS, BYTES = 10, 1 << 30
SANITIZED = "address" in Path(os.environ.get("QUIRE", "")).parts
COMMANDS = {
    "complete": (["complete", "--prompt-ids", "3", "-n", "1", "--threads", "1"], b""),
    "tokenize": (["tokenize"], b" ab<s>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa c\xc3\xa9\n"),
    "template": (["template"], b'{"messages":[{"role":"user","content":"a"}]}'),
}


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not SANITIZED:  # whose shadow is terabytes
        resource.setrlimit(resource.RLIMIT_AS, (BYTES + (256 << 20),) * 2)  # and the room of stacks and libraries


def call(binary, command, path, folder, stdin=None):
    """(exit status, standard error, seconds, most bytes resident)"""
    arguments, given = COMMANDS[command]
    (folder / "in").write_bytes(given if stdin is None else stdin)
    start = time.monotonic()
    with open(folder / "in", "rb") as source, open(folder / "err", "wb") as err, open(folder / "out", "wb") as out:
        process = subprocess.Popen([binary, arguments[0], str(path), *arguments[1:]], stdin=source, stdout=out, stderr=err, preexec_fn=limits)
        _, status, usage = os.wait4(process.pid, 0)  # the processor's limit ends what hangs
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, (folder / "err").read_bytes(), time.monotonic() - start, usage.ru_maxrss * 1024


def complaint(case, status, err, seconds, most):
    """What is wrong with this answer; None: nothing."""
    if b"Sanitizer" in err or b"runtime error" in err:
        return "sanitizer: " + err[:3000].decode(errors="replace")
    text = err.decode(errors="replace")
    if status not in (0, 1, 2):
        return f"exit {status}: {text[-500:]}"
    if seconds > SECONDS or most > BYTES * (2 if SANITIZED else 1):
        return f"{seconds:.1f} s, {most >> 20} MB"
    if status == 0:
        return "accepted" if case.fails else None
    lines = text.strip("\n").split("\n")
    if len(lines) != 1 or not lines[0].startswith("error: ") or len(lines[0].encode()) - 7 >= 400:
        return f"not one sentence under 400 characters: {text[:900]!r}"
    if not all(c.isprintable() for c in lines[0]):
        return f"not printable: {lines[0]!r}"
    if case.says not in lines[0]:
        return f"does not say {case.says!r}: {lines[0]}"
    return None


def run_all(binary, cases):
    counts, wrong, slowest, largest = collections.Counter(), [], (0, ""), (0, "")

    def one(case):
        folder = Path(tempfile.mkdtemp(prefix="hostile-"))
        try:
            path = case.write(folder)
            return case, call(binary, case.command, path, folder)
        finally:
            shutil.rmtree(folder)

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for case, (status, err, seconds, most) in pool.map(one, cases):
            counts[status] += 1
            problem = complaint(case, status, err, seconds, most)
            if problem:
                wrong.append(f"{case.name}: {problem}")
            slowest, largest = max(slowest, (seconds, case.name)), max(largest, (most, case.name))
    return counts, wrong, slowest, largest


def test_hostile_files(quire):
    cases = [c for i, c in enumerate(hostile.generate(N_DAMAGED)) if (i % STRIDE == 0) or (" cut" in c.name or "-flip-" in c.name)]
    counts, wrong, slowest, largest = run_all(str(quire.path), cases)
    print(f"{len(cases)} files, by exit status {dict(counts)}, slowest {slowest[0]:.2f} s ({slowest[1]}), largest {largest[0] >> 20} MB ({largest[1]})")
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:40])
    assert len(cases) > (2000 if LONG else 300)


@pytest.mark.parametrize("name", hostile.TEXTS)
def test_hostile_texts(quire, tmp_path, name):
    """Texts that are hard on a tokenizer: quick and right, or an error."""
    path = small.write_directory(tmp_path / "m", weights=False)
    status, err, seconds, most = call(str(quire.path), "tokenize", path, tmp_path, hostile.TEXTS[name].encode())
    problem = complaint(hostile.Case(name, None, fails=False), status, err, seconds, most)
    assert not problem, problem


def test_right_files(quire, tmp_path):
    """What the hostile files are made from is accepted."""
    directory = small.write_directory(tmp_path / "m")
    made = [directory]
    for arch in ("llama", "qwen2", "qwen3"):
        made.append(tmp_path / f"{arch}.gguf")
        made[-1].write_bytes(small.gguf_model(arch, 2).bytes())
    for path in made:
        for command in COMMANDS:
            status, err, _, _ = call(str(quire.path), command, path, tmp_path, b"a" if command == "tokenize" else None)
            assert status == 0, (path, command, err)


@pytest.mark.parametrize("name", ["m.gguf", "m"])
def test_cut_while_it_is_read(quire, tmp_path, name):
    """The file loses its end, or all, some milliseconds after the start: an error or the whole answer, and no signal."""
    whole, path = tmp_path / f"whole-{name}", tmp_path / name
    quire.run("synth", "tiny-llama", whole, "--dtype", "F32")
    ids = ["--prompt-ids", "3,4,5", "-n", "40", "--threads", "2", "--temperature", "0", "--ignore-eos"]
    right = quire.run("complete", whole, *ids).stdout
    ends = collections.Counter()
    for step in range(60 if LONG else 24):
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        file = path
        if name == "m":
            shutil.copytree(whole, path)
            file = path / "model.safetensors"
        else:
            shutil.copyfile(whole, path)
        process = subprocess.Popen([str(quire.path), "complete", str(path), *ids], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        time.sleep(step * 0.0015 * (4 if SANITIZED else 1))
        os.truncate(file, (0, 5000, file.stat().st_size // 2)[step % 3])
        out, err = process.communicate(timeout=120)
        ends[process.returncode] += 1
        assert process.returncode in (0, 1), (step, err)
        assert out == right if process.returncode == 0 else err.startswith(b"error: ") and err.count(b"\n") == 1, (step, err)
    print(dict(ends))
