"""`quire serve` and bad clients, with raw sockets: after each, the process is the same and the next request is right.
The numbers are those of docs' list of inputs to survive: 31 slow senders, 32 readers that do not read, 33 headers,
34 and 35 framing, 36 JSON, 37 disconnects, 38 descriptors, 39 Host and Origin, 40 to 44 fields."""

import concurrent.futures
import json
import resource
import socket
import threading
import time

import pytest

from server import Server, events, split

BODY = {"prompt": "The capital of France is", "max_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def tiny(quire, tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "tiny.gguf"
    quire.run("synth", "tiny-llama", path, "--seed", 1)
    return path


@pytest.fixture(scope="module")
def shared_server(quire, tiny):
    running = Server(quire.path, tiny, "--max-num-seqs", 8, "--kv-cache-tokens", 16384)
    running.right = running.json("/v1/completions", BODY)["choices"][0]["text"]
    yield running
    assert running.stop() == 0


@pytest.fixture
def server(shared_server):
    """Whatever a test does: the same process answers the next request as before, and nothing is left."""
    yield shared_server
    assert shared_server.process.poll() is None
    assert shared_server.json("/v1/completions", BODY)["choices"][0]["text"] == shared_server.right
    settle(shared_server)
    assert shared_server.metric("quire:http_body_bytes") == 0


def settle(server, seconds=10):
    """Waits until nothing is running or about to."""
    end, quiet = time.monotonic() + seconds, 0
    while quiet < 5 and time.monotonic() < end:
        quiet = 0 if server.metric("vllm:num_requests") else quiet + 1
        time.sleep(0.02)
    assert quiet == 5


def post(fields, body=b"", path="/v1/completions"):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode() + body


GOOD = json.dumps(BODY).encode()
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)


# ---------------------------------------------------------------- 33 to 35: heads and framing

FRAMING = {
    "both framings": (post(f"Content-Length: {len(GOOD)}\r\nTransfer-Encoding: chunked\r\n", CHUNKED), 400),
    "both, other order": (post(f"Transfer-Encoding: chunked\r\nContent-Length: {len(GOOD)}\r\n", CHUNKED), 400),
    "two lengths": (post(f"Content-Length: {len(GOOD)}\r\nContent-Length: 1\r\n", GOOD), 400),
    "the same length twice": (post(f"Content-Length: {len(GOOD)}\r\n" * 2, GOOD), 400),
    "length list": (post("Content-Length: 5, 5\r\n", b"hello"), 400),
    "length with sign": (post("Content-Length: +3\r\n", b"abc"), 400),
    "negative length": (post("Content-Length: -3\r\n", b"abc"), 400),
    "length 2^64": (post("Content-Length: 18446744073709551616\r\n", b"abc"), 400),
    "length over the limit": (post("Content-Length: 33554433\r\n", b"abc"), 413),
    "unknown coding": (post("Transfer-Encoding: gzip\r\n", b"abc"), 501),
    "coding list": (post("Transfer-Encoding: gzip, chunked\r\n", CHUNKED), 501),
    "coding twice": (post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", CHUNKED), 501),
    "coding with a vertical tab": (post("Transfer-Encoding: \x0bchunked\r\n", CHUNKED), 501),
    "space before colon": (post(f"Content-Length : {len(GOOD)}\r\n", GOOD), 400),
    "chunk size 2^64+2": (post("Transfer-Encoding: chunked\r\n", b"10000000000000002\r\nab\r\n0\r\n\r\n"), 400),
    "chunk size over the limit": (post("Transfer-Encoding: chunked\r\n", b"2000001\r\n" + b" " * 0x2000001), 413),
    "chunk size with sign": (post("Transfer-Encoding: chunked\r\n", b"-1\r\nab\r\n0\r\n\r\n"), 400),
    "compressed body": (post("Content-Encoding: gzip\r\nContent-Length: 3\r\n", b"abc"), 415),
    "1 MB of one field": (post("A: " + "b" * (1 << 20) + "\r\n"), 431),
    "1 MB of path": (b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n", 431),
    "100k fields": (post("A: b\r\n" * 100000), 431),
    "200 fields": (post("A: b\r\n" * 200), 431),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 501, 505)),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400, 501)),
    "CONNECT": (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 405)),
    "NUL in a field": (post("A: b\0c\r\n"), 400),
}


@pytest.mark.parametrize("case", FRAMING)
def test_refused_and_closed(server, case):
    data, status = FRAMING[case]
    start = time.monotonic()
    answer = server.raw(data + b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
    got, fields, body = split(answer)
    assert got == status or (isinstance(status, tuple) and got in status), answer[:300]
    assert "connection: close" in fields and b'"version"' not in answer
    assert json.loads(body)["error"]["message"]
    assert time.monotonic() - start < 6  # closed by the server


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_any_cut_of_a_request_reads_alike(server, size):
    body = json.dumps({**BODY, "user": "é" * 50}, ensure_ascii=False).encode()
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(body[i : i + 11]), body[i : i + 11]) for i in range(0, len(body), 11))
    for data in (post(f"Content-Length: {len(body)}\r\nConnection: close\r\n", body),
                 post("Transfer-Encoding: chunked\r\nConnection: close\r\n", chunked + b"0\r\nTrailer: x\r\n\r\n")):  # fmt: skip
        with server.connect() as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(data), size):
                sock.sendall(data[at : at + size])
            got = b""
            while piece := sock.recv(65536):
                got += piece
        status, _, text = split(got)
        assert status == 200 and json.loads(text)["choices"][0]["text"] == server.right


def test_keep_alive_and_pipelining(server):
    get = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = server.raw(post(f"Content-Length: {len(GOOD)}\r\n", GOOD) + get * 3
                        + b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")  # fmt: skip
    assert answer.count(b"HTTP/1.1 200 OK") == 5 and answer.count(b'"version"') == 3
    assert answer.index(b'"choices"') < answer.index(b'"version"') < answer.index(b'"ok"')


def test_expect_continue_and_head(server):
    with server.connect() as sock:
        sock.sendall(post(f"Content-Length: {len(GOOD)}\r\nExpect: 100-continue\r\nConnection: close\r\n"))
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(GOOD)
        got = b""
        while piece := sock.recv(65536):
            got += piece
    assert split(got)[0] == 200
    answer = server.raw(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\n")


def test_http_1_0_stream(server):
    body = json.dumps({**BODY, "stream": True}).encode()
    answer = server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    assert "".join(chunk["choices"][0]["text"] for chunk in events(rest)) == server.right


# ---------------------------------------------------------------- routes, 39

def test_routes(server):
    assert server.json("/health") == {"status": "ok"} and server.json("/ready") == {"status": "ok"}
    assert server.json("/version?x=1")["version"]
    for path, method, status in [("/nothing", "GET", 404), ("/v1/completions", "GET", 405), ("/health", "DELETE", 405),
                                 ("/v1/models", "POST", 405), ("/../etc/passwd", "GET", 404)]:  # fmt: skip
        got, fields, body = server.ask(path, method=method)
        assert got == status and json.loads(body)["error"]["type"] == "invalid_request_error"
        assert status != 405 or any(line.startswith("allow: ") for line in fields)
    absolute = b"GET http://localhost/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert split(server.raw(absolute))[0] == 200


@pytest.mark.parametrize(
    "fields, status",
    [
        ("Host: localhost:8000", 200),
        ("Host: 127.0.0.1", 200),
        ("Host: [::1]:80", 200),
        ("Host: evil.example", 403),
        ("Host: localhost.evil.example", 403),
        ("Host: 127.0.0.1.evil.example", 403),
        ("Host: 10.0.0.1", 403),
        ("Host: ", 403),
        ("Host: localhost\r\nOrigin: http://localhost", 200),
        ("Host: localhost:80\r\nOrigin: http://localhost:81", 403),
        ("Host: localhost\r\nOrigin: http://evil.example", 403),
        ("Host: localhost\r\nOrigin: null", 403),
    ],
)
def test_foreign_pages_get_nothing(server, fields, status):
    for path in ("/v1/models", "/health"):
        request = f"GET {path} HTTP/1.1\r\n{fields}\r\nConnection: close\r\n\r\n".encode()
        got, head, _ = split(server.raw(request))
        assert got == status and not any(line.startswith("access-control") for line in head)


# ---------------------------------------------------------------- 36, 40 to 44: bodies

BAD_BODIES = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "deep": b"[" * 100000,
    "deep in a field": b'{"prompt": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    "lone surrogate": b'{"prompt": "\\ud800"}',
    "reversed surrogates": b'{"prompt": "\\udc00\\ud800"}',
    "bad UTF-8": b'{"prompt": "\xff"}',
    "overlong UTF-8": b'{"prompt": "\xc0\x80"}',
    "NUL in a key": b'{"a\\u0000b": 1}',
    "the same key twice": b'{"prompt": "a", "prompt": "b"}',
    "NaN": b'{"prompt": "x", "temperature": NaN}',
    "Infinity": b'{"prompt": "x", "temperature": Infinity}',
    "1e999": b'{"prompt": "x", "temperature": 1e999}',
    "3 million values": b'{"prompt": [' + b"1," * 3000000 + b"1]}",
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_bad_bodies(server, case):
    status, _, body = server.ask("/v1/completions", BAD_BODIES[case])
    assert status == 400 and json.loads(body)["error"]["message"]


BAD_FIELDS = [
    {"n": 10**6}, {"n": -1}, {"n": 2**63 - 1}, {"max_tokens": -1}, {"max_tokens": 2**62}, {"logprobs": 10**9},
    {"prompt": []}, {"prompt": [[]]}, {"prompt": ["x"] * 100000}, {"prompt": [[1]] * 257}, {"prompt": ""},
    {"prompt": [-1]}, {"prompt": [10**9]}, {"prompt": [1.5]}, {"prompt": [[1], 2]}, {"prompt": {"a": 1}},
    {"logit_bias": {"-1": 1}}, {"logit_bias": {"999999": 1}}, {"stop_token_ids": [10**9]}, {"stop_token_ids": [-1]},
    {"min_tokens": 7}, {"stop": ["a"] * 100000}, {"stop": ""}, {"stop": ["a", ""]}, {"stop": "a" * 100000},
    {"response_format": {"type": "yaml"}}, {"response_format": {"type": "json_schema"}}, {"guided_choice": []},
    {"guided_json": {"type": "no such"}}, {"guided_json": {"$ref": "#"}}, {"guided_regex": "a{1000000}{1000000}"},
    {"guided_json": {"minLength": -1}}, {"structured_outputs": {"grammar": "root ::= root"}},
    {"best_of": 2}, {"best_of": []}, {"best_of": False}, {"suffix": "x"}, {"suffix": {}}, {"suffix": []},
    {"temperature": "hot"}, {"stream": 1}, {"cache_salt": ""}, {"cache_salt": 7},
]  # fmt: skip


@pytest.mark.parametrize("fields", BAD_FIELDS, ids=lambda fields: json.dumps(fields)[:60])
def test_bad_fields(server, fields):
    error = server.json("/v1/completions", {**BODY, **fields}, status=400)["error"]
    assert error["type"] == "invalid_request_error" and error["param"] in fields
    answer = server.ask("/v1/completions", {**BODY, "stream": True, **fields})
    assert answer[0] == 400  # validation happens before the stream begins


def test_codes_of_errors_are_words(server):
    for path, body, code in (
        ("/v1/completions", b"{", "bad_format"),
        ("/v1/completions", {**BODY, "top_p": 2}, "invalid"),
        ("/v1/completions", {**BODY, "suffix": "x"}, "unsupported"),
        ("/tokenize", {"prompt": "x", "return_token_strs": True}, "unsupported"),
    ):
        status, _, text = server.ask(path, body)
        assert status == 400 and json.loads(text)["error"]["code"] == code


def test_large_schemas_take_no_long_time(server):
    """44: accepted or refused, and soon."""
    deep = {"type": "integer"}
    for _ in range(90):
        deep = {"type": "object", "properties": {"a": deep}}
    for schema in (deep, {"enum": [f"w{i}" for i in range(100000)]}, {"$defs": {"a": {"$ref": "#/$defs/a"}},
                   "$ref": "#/$defs/a"}, {"anyOf": [{"anyOf": [{"type": "string"}] * 300}] * 300}):  # fmt: skip
        start = time.monotonic()
        status, _, _ = server.ask("/v1/completions", {**BODY, "guided_json": schema})
        assert status in (200, 400) and time.monotonic() - start < 10
    body = b'{"prompt": "x", "guided_json": ' + b'{"items":' * 60000 + b"{}" + b"}" * 60001
    assert server.ask("/v1/completions", body)[0] == 400


def test_long_prompts_are_refused_quickly(server):
    for prompt in ("a" * (30 << 20), [1] * 1000000):
        start = time.monotonic()
        error = server.json("/v1/completions", {"prompt": prompt}, status=400)["error"]
        assert "maximum context length" in error["message"]
        assert time.monotonic() - start < 5


# ---------------------------------------------------------------- 37: clients that go away

def test_disconnects_free_their_blocks(server):
    long = {"prompt": [5] * 400, "max_tokens": 1500, "ignore_eos": True}
    for stream in (True, False):
        for wait in (0, 0.01, 0.1):
            body = json.dumps({**long, "stream": stream}).encode()
            with server.connect() as sock:
                sock.sendall(post(f"Content-Length: {len(body)}\r\n", body))
                time.sleep(wait)
            settle(server, 5)
    with server.connect() as sock:  # in the midst of a head, of a body
        sock.sendall(b"POST /v1/comp")
    with server.connect() as sock:
        sock.sendall(post("Content-Length: 1000000\r\n", b"{" * 1000))


def test_many_vanish(server):
    body = json.dumps({"prompt": [5] * 100, "max_tokens": 200, "ignore_eos": True, "stream": True}).encode()
    before = server.descriptors()

    def vanish(i):
        with server.connect() as sock:
            sock.sendall(post(f"Content-Length: {len(body)}\r\n", body))
            time.sleep(0.002 * i)

    threads = [threading.Thread(target=vanish, args=(i,)) for i in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end = time.monotonic() + 10
    settle(server)
    while server.descriptors() > before and time.monotonic() < end:
        time.sleep(0.05)
    assert server.descriptors() <= before


# ---------------------------------------------------------------- clients that close only their sending half

def half(server, data, wait=0):
    """Sends, closes that direction after a while, reads to the end: what `nc -N` does."""
    with server.connect() as sock:
        sock.sendall(data)
        time.sleep(wait)
        sock.shutdown(socket.SHUT_WR)
        got = b""
        while piece := sock.recv(65536):
            got += piece
    return got


@pytest.mark.parametrize("wait", [0, 0.02])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("stream", [False, True])
def test_who_closes_one_half_is_answered(server, stream, version, wait):
    long = {"prompt": [5] * 300, "max_tokens": 400, "ignore_eos": True, "temperature": 0, "stream": stream}
    body = json.dumps(long).encode()
    data = post(f"Content-Length: {len(body)}\r\n", body).replace(b"HTTP/1.1", f"HTTP/{version}".encode())
    right = server.json("/v1/completions", {**long, "stream": False})["choices"][0]["text"]
    status, fields, answer = split(half(server, data, wait))
    assert status == 200 and (version == "1.0" or ("transfer-encoding: chunked" in fields) == stream)
    chunks = events(answer) if stream else [json.loads(answer)]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == right


def test_half_closed_requests_of_every_kind(server):
    get = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert split(half(server, get))[0] == 200
    good = post(f"Content-Length: {len(GOOD)}\r\n", GOOD)
    answers = half(server, good + get + good)  # each of a row of requests, and that alone
    assert answers.count(b"HTTP/1.1 200 OK") == 3 and answers.count(b'"choices"') == 2
    answers = half(server, good + b"\r\nGET /vers")
    assert answers.count(b"HTTP/1.1") == 1 and answers.count(b'"choices"') == 1
    assert split(half(server, b"POST /v1/comp"))[0] == 0 and half(server, b"") == b""
    refused = half(server, post("Content-Length: 5\r\nContent-Length: 6\r\n", b"{" * 100000))
    assert split(refused)[0] == 400
    assert split(half(server, post("Content-Length: 2\r\n", b"{}")))[0] == 400


def test_many_half_closed_at_once(server):
    bodies = [json.dumps({**BODY, "max_tokens": 40, "ignore_eos": True, "stream": bool(i % 2)}).encode() for i in range(64)]
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda body: split(half(server, post(f"Content-Length: {len(body)}\r\n", body))), bodies))
    texts = [events(a[2]) if i % 2 else [json.loads(a[2])] for i, a in enumerate(answers)]
    assert len({"".join(chunk["choices"][0]["text"] for chunk in text) for text in texts}) == 1


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wait", [0, 0.1])
def test_who_closes_the_other_half_too_is_gone(server, wait, stream, version):
    """Found by what is sent to it: a byte at the first sign, the next ones later and later, or the stream itself."""
    ended = 'vllm:request_success_total{engine="0",model_name="tiny.gguf",finished_reason="%s"}'
    before = [server.metric(ended % reason) for reason in ("abort", "length")]
    body = json.dumps({"prompt": [5] * 400, "n": 8, "max_tokens": 1600, "ignore_eos": True, "stream": stream}).encode()
    with server.connect() as sock:
        sock.sendall(post(f"Content-Length: {len(body)}\r\n", body).replace(b"HTTP/1.1", version))
        sock.shutdown(socket.SHUT_WR)
        time.sleep(wait)
    settle(server, 10)
    aborted, whole = [server.metric(ended % reason) - b for reason, b in zip(("abort", "length"), before)]
    assert whole == 0 and (aborted == 8 or wait == 0)  # at once: perhaps before the engine had them


# ---------------------------------------------------------------- 32: readers that do not read

def test_a_reader_that_does_not_read_is_cut(server):
    """Its text is buffered, up to a cap and no further; others go on meanwhile."""
    body = {"prompt": [5], "max_tokens": 1900, "ignore_eos": True, "stream": True, "logprobs": 20, "n": 8}
    body = json.dumps(body).encode()
    name = 'vllm:request_success_total{engine="0",model_name="tiny.gguf",finished_reason="abort"}'
    before = server.metric(name)
    with server.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(post(f"Content-Length: {len(body)}\r\n", body))
        end = time.monotonic() + 60
        while server.metric("vllm:num_requests") == 0 and time.monotonic() < end:
            time.sleep(0.01)
        while server.metric("vllm:num_requests") and time.monotonic() < end:
            assert server.json("/health") == {"status": "ok"}
            time.sleep(0.1)
        assert server.metric("vllm:num_requests") == 0
        while server.metric(name) == before and time.monotonic() < end:  # counted when its last events are read
            time.sleep(0.02)
    assert server.metric(name) > before


# ---------------------------------------------------------------- 31 and 38: servers of their own

def limited(n):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


def test_out_of_descriptors(quire, tiny):
    server = Server(quire.path, tiny, preexec=limited(40))
    try:
        socks = []
        for _ in range(60):
            sock = socket.socket()
            sock.settimeout(5)
            sock.connect(("127.0.0.1", server.port))
            socks.append(sock)
        refused = 0
        for sock in socks[-5:]:
            answer = sock.recv(1000)
            refused += answer.startswith(b"HTTP/1.1 503") or answer == b""
        assert refused == 5

        def cpu():
            with open(f"/proc/{server.process.pid}/stat") as stat:
                return sum(map(int, stat.read().split()[13:15]))

        before = cpu()
        time.sleep(1)
        assert cpu() - before < 20  # ticks of 10 ms: it does not turn in vain
        for sock in socks:
            sock.close()
        time.sleep(0.2)
        assert server.json("/health") == {"status": "ok"}
        assert server.json("/v1/completions", BODY)["choices"]
    finally:
        assert server.stop() == 0


def test_too_many_connections(quire, tiny):
    server = Server(quire.path, tiny, "--max-connections", 10)
    try:
        socks = [server.connect() for _ in range(12)]
        assert socks[-1].recv(1000).startswith(b"HTTP/1.1 503")
        for sock in socks:
            sock.close()
        time.sleep(0.2)
        assert server.json("/health") == {"status": "ok"}
    finally:
        assert server.stop() == 0


def test_slow_senders_and_idle_connections(quire, tiny):
    server = Server(quire.path, tiny, "--idle-timeout", 1, "--header-timeout", 1, "--body-timeout", 2)
    try:
        head, body = post(f"Content-Length: {len(GOOD)}\r\n"), GOOD
        for data, most in ((head[:40], 3), (head + body[:20], 4)):
            with server.connect() as sock:
                start = time.monotonic()
                answer = b""
                sock.settimeout(0.3)
                sock.sendall(data[:-10])
                for byte in data[-10:] * 3:  # a byte every now and then does not buy time
                    try:
                        sock.sendall(bytes([byte]))
                        if piece := sock.recv(1000):
                            answer += piece
                        break
                    except TimeoutError:
                        continue
                    except OSError:
                        break
                assert answer.startswith(b"HTTP/1.1 408") and time.monotonic() - start < most
        with server.connect() as sock:
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 200")
            start = time.monotonic()
            assert sock.recv(1000) == b"" and time.monotonic() - start < 3
        with server.connect() as sock:  # says nothing at all
            start = time.monotonic()
            assert sock.recv(1000) == b"" and time.monotonic() - start < 3
    finally:
        assert server.stop() == 0


def test_bodies_have_a_budget(quire, tiny):
    server = Server(quire.path, tiny, "--max-body-memory", 64)
    try:
        half = b" " * (30 << 20)
        holders = []
        for _ in range(2):
            sock = server.connect()
            sock.sendall(post(f"Content-Length: {len(half) + 100}\r\n") + half)
            holders.append(sock)
        end = time.monotonic() + 10
        while server.metric("quire:http_body_bytes") < 2 * len(half) and time.monotonic() < end:
            time.sleep(0.05)
        status, fields, body = server.ask("/tokenize", json.dumps({"prompt": "a" * (8 << 20)}).encode())
        assert status == 429 and "retry-after: 1" in fields and json.loads(body)["error"]["type"] == "rate_limit_error"
        for sock in holders:
            sock.close()
        time.sleep(0.2)
        assert server.metric("quire:http_body_bytes") == 0
        assert server.json("/v1/completions", BODY)["choices"]
    finally:
        assert server.stop() == 0
