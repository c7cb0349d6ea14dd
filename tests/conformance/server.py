"""A quire server as the tests need it: started on a free port, spoken to with raw sockets, ended with SIGTERM."""

import json
import os
import re
import signal
import socket
import subprocess
import time


def until(true, seconds=20, what=""):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if got := true():
            return got
        time.sleep(0.03)
    raise AssertionError(f"not within {seconds} s: {what or true}")


class Server:
    def __init__(self, binary, model, *options, env=None, preexec=None, wait=True):
        self.process = subprocess.Popen(
            [str(binary), "serve", str(model), "--port", "0", *map(str, options)],
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            preexec_fn=preexec,
        )
        self.stderr = b""
        os.set_blocking(self.process.stderr.fileno(), False)
        self.port = None
        if wait:
            self.port = int(self.wait_for(rb"ready: http://[^ ]*:(\d+)/v1").group(1))

    def read_stderr(self):
        chunk = self.process.stderr.read()
        self.stderr += chunk or b""
        return self.stderr

    def wait_for(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.read_stderr()):
                return found
            assert self.process.poll() is None, f"the server ended: {self.stderr.decode()}"
            time.sleep(0.02)
        raise AssertionError(f"no {pattern} in {self.stderr.decode()}")

    def connect(self, timeout=30):
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.settimeout(timeout)
        return sock

    def raw(self, data, timeout=30):
        """Sends bytes, returns all that comes until the server closes (or nothing more comes in time)."""
        with self.connect(timeout) as sock:
            got = b""
            try:
                sock.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            try:
                while chunk := sock.recv(65536):
                    got += chunk
            except (ConnectionResetError, TimeoutError):
                pass
            return got

    def ask(self, path, body=None, headers=(), method=None, timeout=60):
        """One request on a connection of its own: (status, header lines in lower case, body)."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += "".join(f"{line}\r\n" for line in headers)
        if body is not None:
            head += f"Content-Length: {len(data)}\r\n"
        return split(self.raw(head.encode() + b"\r\n" + data, timeout))

    def json(self, path, body=None, status=200, **kwargs):
        got, _, text = self.ask(path, body, **kwargs)
        assert got == status, text[:1000]
        return json.loads(text)

    def metric(self, name):
        _, _, text = self.ask("/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.decode().splitlines() if line.startswith(name))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self, seconds=30):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(seconds)
        self.read_stderr()
        self.process.stderr.close()
        return code


def split(answer):
    """Status, header lines, body without its chunks."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split()[1]) if lines[0].startswith("HTTP/1.1 ") else 0
    fields = [line.lower() for line in lines[1:]]
    if "transfer-encoding: chunked" in fields:
        body = join_chunks(body)
    return status, fields, body


def join_chunks(body):
    joined = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        n = int(size, 16)
        if n == 0:
            assert body == b"\r\n", body
            return joined
        assert body[n : n + 2] == b"\r\n"
        joined += body[:n]
        body = body[n + 2 :]
    raise AssertionError("the last chunk is missing")


def events(body):
    """The data of server-sent events; [DONE] must be the last and is left out."""
    parts = body.decode().split("\n\n")
    assert parts[-1] == "" and all(part.startswith("data: ") for part in parts[:-1]), body[-300:]
    assert parts[-2] == "data: [DONE]"
    return [json.loads(part[6:]) for part in parts[:-2]]
