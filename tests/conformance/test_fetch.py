"""quire fetch against a hub on this machine that fails in all ways; its cache against huggingface_hub's own."""

import concurrent.futures
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hub_server import Hub, Repo

NAME = "Org/Small-1.0"


@pytest.fixture(scope="module")
def model(quire, tmp_path_factory):
    """A whole model directory, small."""
    path = tmp_path_factory.mktemp("model") / "tiny"
    quire.run("synth", "tiny-qwen2", path, "--seed", "1")
    return {p.name: p.read_bytes() for p in path.iterdir()}


@pytest.fixture
def repo(model):
    files = {**model, "README.md": b"# read me", "pytorch_model.bin": b"x" * 1000, "onnx/model.onnx": b"y" * 1000}
    return Repo(NAME, files, lfs=["model.safetensors", "pytorch_model.bin"])


@pytest.fixture
def hub(repo):
    with Hub(repo) as server:
        yield server


@pytest.fixture
def home(tmp_path):
    return tmp_path / "hf"


def env(hub, home, **more):
    clean = {"HF_TOKEN": "", "HF_TOKEN_PATH": str(home / "token"), "HF_HUB_CACHE": str(home / "hub"), "HF_HUB_OFFLINE": "",
             "no_proxy": "*", "HF_HOME": str(home), "HF_ENDPOINT": hub.url}  # fmt: skip
    return {**clean, **more}


def fetch(quire, hub, home, name=NAME, check=True, timeout=60, **more):
    return quire.run("fetch", name, env=env(hub, home, **more), check=check, timeout=timeout)


def fails(quire, hub, home, *words, name=NAME, **more):
    done = fetch(quire, hub, home, name, check=False, **more)
    message = done.stderr.decode()
    assert done.returncode == 1, message
    last = message.strip().splitlines()[-1]
    assert len(last) < 500 and all(w in last for w in words), message
    return message


def stored(home, name=NAME):
    return home / "hub" / ("models--" + name.replace("/", "--"))


def check_cache(home, repo, paths):
    """The layout that huggingface_hub documents: a ref, links into blobs, every blob whole."""
    place = stored(home, repo.name)
    assert (place / "refs" / "main").read_text() == repo.commit
    snapshot = place / "snapshots" / repo.commit
    found = {str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if not p.is_dir()}
    assert found == set(paths)
    for path in paths:
        link = snapshot / path
        assert link.is_symlink() and not os.path.isabs(os.readlink(link))
        assert link.resolve() == (place / "blobs" / repo.etag(path)).resolve()
        assert link.read_bytes() == repo.files[path]
    assert not list((place / "blobs").glob("*.incomplete"))


def wanted(model):
    return [p for p in model]


def test_fetches_what_it_needs(quire, hub, home, repo, model):
    out = fetch(quire, hub, home).stdout.decode().strip()
    assert Path(out) == stored(home) / "snapshots" / repo.commit
    check_cache(home, repo, wanted(model))
    assert not hub.gets("pytorch_model.bin") and not hub.gets("model.onnx")
    before = len(hub.seen)
    fetch(quire, hub, home)
    assert len(hub.seen) == before + 1, "a second fetch asks for the list of files only"


def test_model_is_a_repository(quire, hub, home, model, tmp_path):
    words = ["complete", NAME, "--prompt-ids", "1,2,3", "--max-tokens", "4", "--temperature", "0", "--ignore-eos", "--json"]
    first = quire.json(*words, env=env(hub, home))
    asked = len(hub.seen)
    again = quire.json(*words, env=env(hub, home, HF_HUB_OFFLINE="1"))
    assert first["token_ids"] == again["token_ids"] and len(hub.seen) == asked
    for name, data in model.items():
        (tmp_path / name).write_bytes(data)
    words[1] = tmp_path
    assert quire.json(*words)["token_ids"] == first["token_ids"]


def test_tokenizing_downloads_no_weights(quire, hub, home):
    ids = quire.text("tokenize", NAME, stdin="Hello", env=env(hub, home))
    assert ids.strip() and not hub.gets("model.safetensors")
    quire.text("info", NAME, env=env(hub, home))
    assert hub.gets("model.safetensors")


def test_list_without_sizes(quire, hub, home, repo, model):
    hub.blobs = False
    fetch(quire, hub, home)
    check_cache(home, repo, wanted(model))


def test_huggingface_hub_reads_it(quire, hub, home, repo, model):
    fetch(quire, hub, home)
    code = (
        "import sys, huggingface_hub as h\n"
        f"print(h.snapshot_download({NAME!r}, local_files_only=True))\n"
        f"print(h.hf_hub_download({NAME!r}, 'config.json', local_files_only=True))\n"
        f"print(h.scan_cache_dir().repos.__len__(), len(h.scan_cache_dir().warnings))\n"
    )
    out = python(code, env(hub, home, HF_HUB_OFFLINE="1")).splitlines()
    snapshot = stored(home) / "snapshots" / repo.commit
    assert Path(out[0]) == snapshot and Path(out[1]) == snapshot / "config.json" and out[2] == "1 0"
    # and goes on with it: what is there is not asked for again
    python(f"import huggingface_hub as h; h.snapshot_download({NAME!r})", env(hub, home))
    assert len(hub.gets("model.safetensors")) == 1 and hub.gets("pytorch_model.bin")


def python(code, variables):
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True,
                          timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_reads_what_huggingface_hub_wrote(quire, hub, home):
    python(f"import huggingface_hub as h; h.snapshot_download({NAME!r})", env(hub, home))
    asked = len(hub.seen)
    quire.text("info", NAME, env=env(hub, home, HF_HUB_OFFLINE="1"))
    assert len(hub.seen) == asked
    fetch(quire, hub, home)
    assert len(hub.seen) == asked + 1 and len(hub.gets("model.safetensors")) == 1


def test_goes_on_after_a_break(quire, hub, home, repo, model):
    hub.cut["model.safetensors"] = [1000, 2000, 0, 3000]
    fetch(quire, hub, home)
    check_cache(home, repo, wanted(model))
    assert [f.get("Range") for f in hub.gets("model.safetensors")] == [
        None, "bytes=1000-", "bytes=3000-", "bytes=3000-", "bytes=6000-"]  # fmt: skip


def test_gives_up_and_goes_on_when_called_again(quire, hub, home, repo, model):
    hub.cut["model.safetensors"] = [5000] + [0] * 5
    fails(quire, hub, home, "model.safetensors", "byte 5000", str(len(model["model.safetensors"])))
    part = stored(home) / "blobs" / (repo.etag("model.safetensors") + ".incomplete")
    assert part.read_bytes() == model["model.safetensors"][:5000]
    assert not (stored(home) / "refs").exists(), "half a snapshot is no revision"
    hub.cut.clear()
    quire.text("info", NAME, env=env(hub, home))  # half a cache is none, and is gone on with
    check_cache(home, repo, wanted(model))
    assert hub.gets("model.safetensors")[-1]["Range"] == "bytes=5000-"


def test_server_without_ranges(quire, hub, home, repo, model):
    hub.ranges = False
    hub.cut["model.safetensors"] = [1000, 700]
    fetch(quire, hub, home)
    check_cache(home, repo, wanted(model))


def test_wrong_rest_is_found(quire, hub, home, repo, model):
    """What an earlier try left belongs to another file: found by its hash, fetched anew."""
    part = stored(home) / "blobs" / (repo.etag("model.safetensors") + ".incomplete")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"z" * 4000)
    fetch(quire, hub, home)
    check_cache(home, repo, wanted(model))
    for whole in (len(model["model.safetensors"]), len(model["model.safetensors"]) + 5):
        shutil.rmtree(home)
        part.parent.mkdir(parents=True)
        part.write_bytes(b"z" * whole)
        fetch(quire, hub, home)
        check_cache(home, repo, wanted(model))


def test_wrong_bytes_are_refused(quire, hub, home, repo, model):
    data = bytearray(model["model.safetensors"])
    data[77] ^= 1
    hub.tampered["model.safetensors"] = bytes(data)
    fails(quire, hub, home, "model.safetensors", "SHA-256")
    assert not (stored(home) / "blobs" / repo.etag("model.safetensors")).exists()
    hub.tampered.clear()
    fetch(quire, hub, home)
    check_cache(home, repo, wanted(model))


@pytest.mark.parametrize("lie", [-100, 100])
def test_length_that_lies(quire, hub, home, model, lie):
    truth = len(model["model.safetensors"])
    hub.length["model.safetensors"] = truth + lie
    fails(quire, hub, home, "model.safetensors", str(truth), str(truth + lie))
    hub.length.clear()
    hub.listed["model.safetensors"] = truth + lie
    fails(quire, hub, home, "model.safetensors", str(truth), str(truth + lie))


def test_small_file_shorter_than_announced(quire, hub, home):
    hub.cut["config.json"] = [10] + [0] * 20
    message = fails(quire, hub, home, "config.json", "broke off at byte 10")
    assert len(hub.gets("config.json")) == 6, message


STATUS = {401: "HF_TOKEN", 403: "gated", 404: "no such", 429: "too many", 500: "problem", 503: "problem", 418: "418"}


def test_status(quire, repo, tmp_path):
    """All side by side: five tries take seven seconds."""

    def one(case):
        status, where = case
        with Hub(repo) as hub:
            hub.status[where] = [status] * 50
            message = fails(quire, hub, tmp_path / f"{status}{where}", str(status), STATUS[status])
            assert "http" in message
            return case, 50 - len(hub.status[where])

    cases = [(s, w) for s in STATUS for w in ("main", "model.safetensors")]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        for (status, where), tries in pool.map(one, cases):
            assert tries == (5 if status in (429, 500, 503) else 1), (status, where)


def test_tries_again(quire, hub, home, repo, model):
    hub.status["main"] = [500, (429, {"Retry-After": "1"})]
    hub.status["model.safetensors"] = [503, 408]
    hub.status["config.json"] = [502]
    start = time.monotonic()
    fetch(quire, hub, home)
    assert time.monotonic() - start > 1
    check_cache(home, repo, wanted(model))


def test_no_server(quire, home):
    with Hub() as hub:
        pass
    fails(quire, hub, home, hub.url)


def test_unknown_repository_and_revision(quire, hub, home):
    fails(quire, hub, home, "404", name="Org/Other")
    fails(quire, hub, home, "404", name=NAME + "@v9")


def test_revisions(quire, hub, home, repo):
    repo.revisions |= {"v1.0", "refs/pr/7"}
    for revision in ("v1.0", "refs/pr/7", repo.commit):
        fetch(quire, hub, home, f"{NAME}@{revision}")
        ref = stored(home) / "refs" / revision
        assert revision == repo.commit or ref.read_text() == repo.commit
        quire.text("info", f"{NAME}@{revision}", env=env(hub, home, HF_HUB_OFFLINE="1"))


# ---------------------------------------------------------------- tokens


def tokens(hub):
    return [fields.get("Authorization") for _, _, fields in hub.seen]


def test_token_goes_to_the_hub_alone(quire, hub, home, repo, model):
    """A redirect to another port is another host: no token there."""
    hub.secret = "hf_secret"
    with Hub(repo) as store:
        hub.moved = store.url
        fetch(quire, hub, home, HF_TOKEN="hf_secret")
        check_cache(home, repo, wanted(model))
        assert set(tokens(hub)) == {"Bearer hf_secret"}
        assert store.gets("model.safetensors") and set(tokens(store)) == {None}
        # the store breaks off: the rest is asked for by way of the hub again
        shutil.rmtree(home)
        store.cut["model.safetensors"] = [999]
        fetch(quire, hub, home, HF_TOKEN="hf_secret")
        assert store.gets("model.safetensors")[-1]["Range"] == "bytes=999-"
        assert set(tokens(store)) == {None}


def test_redirect_on_the_same_host_keeps_the_token(quire, hub, home, repo, model):
    hub.secret = "hf_secret"
    hub.moved = ""  # a path of its own
    fetch(quire, hub, home, HF_TOKEN="hf_secret")
    check_cache(home, repo, wanted(model))


def test_where_tokens_come_from(quire, hub, home, tmp_path):
    hub.secret = "hf_one"
    fails(quire, hub, home, "401", "HF_TOKEN")
    fails(quire, hub, home, "401", "token may not", HF_TOKEN="hf_wrong")
    (tmp_path / "t").write_text("hf_one\n")
    fetch(quire, hub, home, HF_TOKEN_PATH=str(tmp_path / "t"))
    shutil.rmtree(home)
    home.mkdir()
    (home / "token").write_text(" hf_one ")
    fetch(quire, hub, home)
    shutil.rmtree(home)
    fetch(quire, hub, home, HF_TOKEN="hf_one", HF_TOKEN_PATH=str(tmp_path / "none"))
    fails(quire, hub, home, "HF_TOKEN", "character", HF_TOKEN="a\r\nX-Evil: 1")
    assert not any("X-Evil" in fields for _, _, fields in hub.seen)


def test_endless_redirects(quire, hub, home):
    hub.status["model.safetensors"] = [(302, {"Location": "/" + NAME + "/resolve/main/model.safetensors"})] * 40
    fails(quire, hub, home, "redirects")
    hub.status["model.safetensors"] = [(302, {"Location": "file:///etc/passwd"})] * 40
    fails(quire, hub, home, "no web address")


# ---------------------------------------------------------------- offline, locks, Ctrl-C


def test_offline(quire, hub, home):
    fails(quire, hub, home, "HF_HUB_OFFLINE", HF_HUB_OFFLINE="1")
    done = quire.run("info", NAME, env=env(hub, home, HF_HUB_OFFLINE="1"), check=False)
    assert done.returncode == 1 and b"HF_HUB_OFFLINE" in done.stderr and not hub.seen


def test_two_at_once(quire, hub, home, repo, model):
    variables = {**os.environ, **env(hub, home)}
    both = [subprocess.Popen([quire.path, "fetch", NAME], env=variables, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [p.wait(timeout=60) for p in both] == [0, 0, 0]
    check_cache(home, repo, wanted(model))
    assert len(hub.gets("model.safetensors")) == 1


def test_waits_for_the_lock_of_huggingface_hub(quire, hub, home, repo):
    lock = home / "hub" / ".locks" / stored(home).name / (repo.etag("model.safetensors") + ".lock")
    lock.parent.mkdir(parents=True)
    code = f"import filelock, time\nwith filelock.FileLock({str(lock)!r}):\n  print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    waiting = subprocess.Popen([quire.path, "fetch", NAME], env={**os.environ, **env(hub, home)})
    time.sleep(1.5)
    assert waiting.poll() is None and not hub.gets("model.safetensors") and hub.gets("config.json")
    holder.kill()
    holder.wait()
    assert waiting.wait(timeout=60) == 0


def test_interrupt(quire, hub, home):
    hub.status["model.safetensors"] = [(503, {"Retry-After": "60"})] * 9
    running = subprocess.Popen([quire.path, "fetch", NAME], env={**os.environ, **env(hub, home)}, stderr=subprocess.PIPE)
    while not hub.gets("model.safetensors"):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=10) == 130 and b"stopped" in running.stderr.read()


# ---------------------------------------------------------------- what repositories may say


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "a//b", "a/./b", "b\\..\\c", "x\ny", "", "a" * 300])
def test_paths_that_lead_out(quire, home, tmp_path, path):
    with Hub(Repo(NAME, {"config.json": b"{}", path: b"evil"})) as hub:
        fails(quire, hub, home, "outside the cache")


def test_hostile_lists(quire, hub, home):
    for text in (b"", b"[]", b"{", b'{"sha":"a/../b","siblings":[]}', b'{"sha":1}', b'{"siblings":[]}',
                 b'{"sha":"abc","siblings":[{"rfilename":1}]}', b'{"sha":"abc","siblings":[{"rfilename":"x","size":-1}]}',
                 b'{"sha":"abc","siblings":[1]}', b'{"sha":"abc","siblings":' + b"[" * 100000):  # fmt: skip
        hub.info = lambda h, body, repo, revision, text=text: hub.send(h, 200, text, {}, body)
        fails(quire, hub, home)


def test_quantization_is_refused_before_the_weights(quire, home, model):
    config = json.loads(model["config.json"]) | {"quantization_config": {"quant_method": "quip-sharp"}}
    files = {**model, "config.json": json.dumps(config).encode()}
    with Hub(Repo(NAME, files, lfs=["model.safetensors"])) as hub:
        fails(quire, hub, home, "quip-sharp")
        assert not hub.gets("model.safetensors")


def test_no_weights(quire, home):
    with Hub(Repo(NAME, {"config.json": b"{}", "pytorch_model.bin": b"x"})) as hub:
        fails(quire, hub, home, "pickled")


def test_names(quire, hub, home):
    for name in ("x", "../y", "Org/..", "Org/N@", "Org/N:", "Org/N/f.bin", "Org/N/../f.gguf", "-o/n", "Org/N:a:b/c", "a/b.gguf"):
        done = quire.run("fetch", "--", name, env=env(hub, home), check=False)
        assert done.returncode in (1, 2), name
    assert not hub.seen


# ---------------------------------------------------------------- GGUF


GB = 10**9


@pytest.fixture
def quants():
    """Sizes are announced, not sent: only small files are fetched."""
    rng = random.Random(5)
    files = {f"Small-{t}.gguf": rng.randbytes(1000) for t in ("Q2_K", "Q4_K_M", "Q4_K_S", "Q8_0", "F16", "F32", "IQ1_S")}
    files |= {f"big/Small-BF16-0000{i}-of-00003.gguf": rng.randbytes(500 + i) for i in (1, 2, 3)}
    files |= {"mmproj-Small-F16.gguf": b"p" * 10, "README.md": b"text"}
    return Repo("Org/Small-GGUF", files, lfs=[f for f in files if f.endswith(".gguf")])


def taken(hub):
    return sorted({p.split("/main/")[-1].split(hub_commit(hub) + "/")[-1] for m, p, _ in hub.seen if p.endswith(".gguf")})


def hub_commit(hub):
    return next(iter(hub.repos.values())).commit


def test_gguf_by_tag(quire, home, quants):
    with Hub(quants) as hub:
        out = fetch(quire, hub, home, "Org/Small-GGUF:q4_k_m").stdout.decode().strip()
        assert out.endswith("/Small-Q4_K_M.gguf") and Path(out).read_bytes() == quants.files["Small-Q4_K_M.gguf"]
        assert taken(hub) == ["Small-Q4_K_M.gguf"]
        fails(quire, hub, home, "Q5_K_M", "Q4_K_S", name="Org/Small-GGUF:Q5_K_M")
        fails(quire, hub, home, "Q4_K", name="Org/Small-GGUF:Q4_K")
        out = fetch(quire, hub, home, "Org/Small-GGUF:BF16@main").stdout.decode().strip()
        assert out.endswith("/big/Small-BF16-00001-of-00003.gguf")
        check_cache(home, quants, ["Small-Q4_K_M.gguf"] + [f for f in quants.files if "BF16" in f])


def test_gguf_by_file(quire, home, quants):
    with Hub(quants) as hub:
        assert fetch(quire, hub, home, "Org/Small-GGUF/Small-Q2_K.gguf").stdout.decode().strip().endswith("Small-Q2_K.gguf")
        out = fetch(quire, hub, home, "Org/Small-GGUF/big/Small-BF16-00002-of-00003.gguf").stdout.decode().strip()
        assert out.endswith("-00001-of-00003.gguf") and len(taken(hub)) == 4
        fails(quire, hub, home, "no file", name="Org/Small-GGUF/Small-Q3_K.gguf")
        del quants.files["big/Small-BF16-00002-of-00003.gguf"]
        fails(quire, hub, home, "missing", name="Org/Small-GGUF:BF16")


def test_gguf_best_that_fits(quire, home, quants):
    with Hub(quants) as hub:
        done = fetch(quire, hub, home, "Org/Small-GGUF")
        text = done.stderr.decode()
        assert "taking big/Small-BF16" in text and "Q4_K_M" in text and "IQ1_S" in text and "mmproj" not in text
        assert "does not read" in next(line for line in text.splitlines() if "IQ1_S" in line)
        # sizes that no memory holds
        shutil.rmtree(home)
        hub.listed |= {f: 10**15 for f in quants.files if "Q2_K" not in f}
        text = fetch(quire, hub, home, "Org/Small-GGUF").stderr.decode()
        assert "taking Small-Q2_K.gguf" in text and "does not fit" in text
        shutil.rmtree(home)
        hub.listed["Small-Q2_K.gguf"] = 10**14
        fails(quire, hub, home, "100000.00 GB", "REPO:Q2_K", name="Org/Small-GGUF")


def test_gguf_as_model(quire, home, default_model):
    data = default_model.read_bytes()
    with Hub(Repo("Org/D-GGUF", {"D-Q4_1.gguf": data, "D-F32.gguf": b"x" * 99}, lfs=["D-Q4_1.gguf"])) as hub:
        words = ["complete", "-p", "One two", "--max-tokens", "4", "--temperature", "0"]
        direct = quire.text(*words, default_model)
        assert quire.text(*words, "Org/D-GGUF:Q4_1", env=env(hub, home)) == direct
        asked = len(hub.seen)
        assert quire.text(*words, "Org/D-GGUF", env=env(hub, home)) == direct
        assert len(hub.seen) == asked


# ---------------------------------------------------------------- what a person sees


def on_terminal(command, variables):
    """Standard error as a terminal would get it."""
    import pty

    try:
        leader, follower = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal can be made here: {error}")
    process = subprocess.Popen(command, stderr=follower, stdout=subprocess.DEVNULL, env={**os.environ, **variables})
    os.close(follower)
    text = b""
    try:
        while chunk := os.read(leader, 4096):
            text += chunk
    except OSError:
        pass
    os.close(leader)
    assert process.wait(timeout=60) == 0, text
    return text.decode()


def test_progress_bar(quire, hub, home, repo):
    command = [quire.path, "fetch", NAME]
    for bar in (True, False):
        shutil.rmtree(home, ignore_errors=True)
        hub.cut["model.safetensors"] = [200000, 0]
        variables = env(hub, home, TERM="xterm", NO_COLOR="", HF_HUB_DISABLE_PROGRESS_BARS="0" if bar else "1")
        assert ("fetching [" in on_terminal(command, variables)) == bar
