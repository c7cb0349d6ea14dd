"""`quire serve` as a process: keys, CORS, configuration, the state while loading, draining, systemd's socket, logs, rest."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from server import Server, events, split, until

LONG = {"prompt": [5] * 10, "max_tokens": 200, "ignore_eos": True, "temperature": 0}  # seconds of the default model


@pytest.fixture(scope="module")
def tiny(quire, tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "tiny.gguf"
    quire.run("synth", "tiny-llama", path, "--seed", 1)
    return path


def test_api_keys(quire, tiny):
    server = Server(quire.path, tiny, "--api-key", "first", "--api-key", "second one")
    try:
        for path, body in (("/v1/models", None), ("/v1/completions", {"prompt": "x"}), ("/tokenize", {"prompt": "x"})):
            for fields in ((), ("Authorization: Bearer wrong",), ("Authorization: Bearer ",), ("Authorization: first",),
                           ("Authorization: Bearer firs",), ("Authorization: Bearer first1",)):  # fmt: skip
                status, head, text = server.ask(path, body, headers=fields)
                if fields == ("Authorization: first",):
                    continue  # taken without the word, as some clients send it
                assert status == 401 and "www-authenticate: bearer" in head
                assert json.loads(text)["error"]["code"] == "invalid_api_key"
            for key in ("first", "second one"):
                assert server.ask(path, body, headers=(f"Authorization: Bearer {key}",))[0] == 200
        for path in ("/health", "/ready", "/metrics", "/version", "/"):
            assert server.ask(path)[0] == 200
    finally:
        assert server.stop() == 0


def test_a_key_from_the_environment(quire, tiny):
    server = Server(quire.path, tiny, env={"QUIRE_API_KEY": "secret"})
    try:
        assert server.ask("/v1/models")[0] == 401
        assert server.ask("/v1/models", headers=("Authorization: Bearer secret",))[0] == 200
    finally:
        assert server.stop() == 0


def test_cors(quire, tiny):
    server = Server(quire.path, tiny, "--allowed-origin", "https://app.example", "--allowed-host", "llm.example")
    try:
        mine, other = "Origin: https://app.example", "Origin: https://evil.example"
        status, head, _ = server.ask("/v1/completions", method="OPTIONS", headers=(mine,))
        assert status == 204 and "access-control-allow-origin: https://app.example" in head
        assert any(line.startswith("access-control-allow-headers: authorization") for line in head)
        for body in ({"prompt": "x", "max_tokens": 1}, {"prompt": "x", "max_tokens": 1, "stream": True}, {"prompt": 1}):
            _, head, _ = server.ask("/v1/completions", body, headers=(mine,))
            assert "access-control-allow-origin: https://app.example" in head
        status, head, _ = server.ask("/v1/completions", method="OPTIONS", headers=(other,))
        assert status == 403 and not any(line.startswith("access-control") for line in head)
        request = b"GET /v1/models HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
        assert split(server.raw(request % b"llm.example:8000"))[0] == 200
        assert split(server.raw(request % b"llm.example.evil"))[0] == 403
    finally:
        assert server.stop() == 0


def test_config_file_and_log(quire, tiny, tmp_path):
    config = tmp_path / "quire.yaml"
    config.write_text("served-model-name: my-model # a comment\nlog-requests: true\nmax-num-seqs: 4\nseed: 11\n")
    server = Server(quire.path, tiny, "--config", config)
    try:
        assert [model["id"] for model in server.json("/v1/models")["data"]] == ["my-model"]
        body = {"model": "my-model", "prompt": "x", "max_tokens": 5, "ignore_eos": True, "temperature": 2}
        texts = {server.json("/v1/completions", body)["choices"][0]["text"] for _ in range(2)}
        assert len(texts) == 1  # --seed
        server.json("/v1/completions", {"model": "other", "prompt": "x"}, status=404)
        server.wait_for(rb'"status":404')
        lines = [json.loads(line) for line in server.stderr.decode().splitlines() if line.startswith("{")]
        assert [line["status"] for line in lines] == [200, 200, 404]
        assert lines[0]["output_tokens"] == 5 and lines[0]["ttft_ms"] > 0 and lines[0]["path"] == "/v1/completions"
    finally:
        assert server.stop() == 0


def test_sampling_of_requests_that_name_none(quire, tiny):
    """The tiny model's own temperature is 0 (generation_config.json), so each option must show."""

    def texts(server, **fields):
        body = {"prompt": "x", "max_tokens": 30, "ignore_eos": True, **fields}
        return {server.json("/v1/completions", body)["choices"][0]["text"] for _ in range(4)}

    server = Server(quire.path, tiny, "--temperature", 50)
    try:
        greedy = texts(server, temperature=0)
        assert len(greedy) == 1 and len(texts(server)) == 4 == len(texts(server, temperature=None))
        assert texts(server, top_p=1e-6) == greedy
    finally:
        assert server.stop() == 0
    server = Server(quire.path, tiny, "--temperature", 50, "--top-p", 1e-6)
    try:
        assert texts(server) == greedy and len(texts(server, top_p=1)) == 4
    finally:
        assert server.stop() == 0


def test_a_parser_of_calls_by_name(quire, tiny):
    call = 'x[TOOL_CALLS]f[ARGS]{}'
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 60, "guided_choice": [call],
            "tools": [{"type": "function", "function": {"name": "f"}}]}  # fmt: skip
    for parser, calls in (("mistral", 1), ("none", 0)):
        server = Server(quire.path, tiny, "--tool-call-parser", parser)
        try:
            message = server.json("/v1/chat/completions", body)["choices"][0]["message"]
            assert len(message.get("tool_calls", [])) == calls
            assert message["content"] == ("x" if calls else call)
        finally:
            assert server.stop() == 0
    assert quire.run("serve", tiny, "--tool-call-parser", "magic", check=False).returncode == 2


def test_loading_says_so(quire):
    server = Server(quire.path, "dummy:smollm2-135m", wait=False)  # seconds; the default model is there before one can ask
    try:
        port = None
        end = time.monotonic() + 10
        while port is None and time.monotonic() < end:  # it listens before it has loaded: find its port
            with open(f"/proc/{server.process.pid}/net/tcp") as table:
                inodes = {os.readlink(f"/proc/{server.process.pid}/fd/{fd}")[8:-1]
                          for fd in os.listdir(f"/proc/{server.process.pid}/fd")
                          if os.path.exists(f"/proc/{server.process.pid}/fd/{fd}")
                          and os.readlink(f"/proc/{server.process.pid}/fd/{fd}").startswith("socket:[")}  # fmt: skip
                for row in list(table)[1:]:
                    columns = row.split()
                    if columns[3] == "0A" and columns[9] in inodes:
                        port = int(columns[1].split(":")[1], 16)
        server.port = port
        states = set()
        while not states & {200} and time.monotonic() < end + 60:
            status, _, body = server.ask("/ready")
            states.add(status)
            if status == 503:
                assert json.loads(body) == {"status": "loading"}
                health, (got, fields, _) = server.ask("/health")[0], server.ask("/v1/completions", {"prompt": "x"})
                loading = health == got == 503 and "retry-after: 1" in fields
                assert loading or server.ask("/ready")[0] == 200  # it may be ready by now
        assert states == {503, 200}
    finally:
        assert server.stop() == 0


def stream_of(server, body, got):
    text = json.dumps({**body, "stream": True}).encode()
    request = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)
    got.append(split(server.raw(request, timeout=60)))


def until_running(server, n):
    until(lambda: server.metric("vllm:num_requests_running") >= n, 20, f"{n} requests running")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_drain(quire, default_model, number):
    server = Server(quire.path, default_model, "--max-num-seqs", 4, "--kv-cache-tokens", 8192)
    got = []
    threads = [threading.Thread(target=stream_of, args=(server, LONG, got)) for _ in range(4)]
    for thread in threads:
        thread.start()
    until_running(server, 4)
    keep = server.connect()
    server.process.send_signal(number)
    end = time.monotonic() + 5
    keep.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = keep.recv(1000)
    for thread in threads:
        thread.join()
    assert server.process.wait(20) == 0 and time.monotonic() < end + 20
    assert answer == b"" or b"503" in answer or b"200" in answer  # before or after the signal was seen
    for status, _, body in got:
        chunks = events(body)
        assert status == 200 and chunks[-1]["choices"][0]["finish_reason"] == "length"
    keep.close()
    server.stop()


def test_a_second_signal_ends_at_once(quire, default_model):
    server = Server(quire.path, default_model, "--kv-cache-tokens", 8192)
    body = json.dumps({**LONG, "max_tokens": 1900, "stream": True}).encode()
    request = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    thread = threading.Thread(target=server.raw, args=(request,))
    thread.start()
    until_running(server, 1)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(5) in (0, 130)
    thread.join()
    server.stop()


def busiest_thread(pid, seconds=0.3):
    def ticks():
        found = {}
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/stat") as stat:
                found[int(tid)] = int(stat.read().rsplit(")", 1)[1].split()[11])
        return found

    before = ticks()
    time.sleep(seconds)
    return max((n - before.get(tid, 0), tid) for tid, n in ticks().items())[1]


def test_an_engine_that_hangs_ends_the_process(quire, default_model):
    """The thread of the engine's loop is stopped inside a step, as a debugger stops one: after 2 seconds without a sign of life
    the server says so to everybody and ends with 1, so that a supervisor starts it again."""
    seize, interrupt, any_child = 0x4206, 0x4207, 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    server = Server(quire.path, default_model, "--threads", 1, "--max-num-seqs", 4, "--kv-cache-tokens", 32768)
    got = []
    body = {"prompt": "x", "max_tokens": 7000, "ignore_eos": True}
    threads = [threading.Thread(target=stream_of, args=(server, body, got)) for _ in range(3)]
    for thread in threads:
        thread.start()
    until_running(server, 3)
    tid = busiest_thread(server.process.pid)
    if libc.ptrace(seize, tid, None, None) != 0:
        server.process.kill()
        server.stop()
        pytest.skip(f"no leave to stop a thread: {os.strerror(ctypes.get_errno())}")
    assert server.ask("/health")[0] == 200
    start = time.monotonic()
    assert libc.ptrace(interrupt, tid, None, None) == 0
    states = set()
    while 503 not in states and time.monotonic() < start + 10:
        states.add(server.ask("/health", timeout=5)[0])
        time.sleep(0.01)
    assert 503 in states and 1.5 < time.monotonic() - start < 6  # 2 s and a tick, on a busy machine too
    gone = False
    while not gone and time.monotonic() < start + 20:  # a stopped thread must be waited for by who stopped it
        found, status = os.waitpid(tid, any_child | os.WNOHANG)
        gone = found == tid and not os.WIFSTOPPED(status)
        time.sleep(0.01)
    assert server.process.wait(10) == 1
    for thread in threads:
        thread.join()
    assert len(got) == 3
    for status, _, stream in got:
        chunks = events(stream)  # [DONE] is last
        assert status == 200 and "engine stopped working" in chunks[-1]["error"]["message"]
    server.stop()


def test_systemd_is_told(quire, tiny, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(20)
        server = Server(quire.path, tiny, env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert notify.recv(100).startswith(b"READY=1")
        assert server.stop() == 0
        assert notify.recv(100) == b"STOPPING=1"


def test_an_idle_server_rests(quire, tiny):
    server = Server(quire.path, tiny)
    try:
        server.json("/v1/completions", {"prompt": "x", "max_tokens": 2})

        def ticks():
            with open(f"/proc/{server.process.pid}/stat") as stat:
                return sum(map(int, stat.read().split()[13:15]))

        before = ticks()
        time.sleep(3)
        assert ticks() - before <= 3  # of 10 ms: 1 %
    finally:
        assert server.stop() == 0


def test_curl_reads_a_stream(quire, tiny):
    server = Server(quire.path, tiny)
    try:
        url = f"http://127.0.0.1:{server.port}/v1/completions"
        done = subprocess.run(
            ["curl", "-sN", url, "-d", json.dumps({"prompt": "x", "max_tokens": 3, "stream": True})],
            capture_output=True, timeout=30,
        )  # fmt: skip
        assert done.returncode == 0 and events(done.stdout)
    except FileNotFoundError:
        pytest.skip("curl is not installed")
    finally:
        assert server.stop() == 0


def test_a_taken_port_is_told(quire, tiny):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = quire.run("serve", tiny, "--port", taken.getsockname()[1], check=False)
    assert done.returncode == 1 and b"cannot listen" in done.stderr
