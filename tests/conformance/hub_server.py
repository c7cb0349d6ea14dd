"""A hub on this machine: repositories of made-up files, and every way in which a real one can fail."""

import hashlib
import json
import re
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Repo:
    def __init__(self, name, files, lfs=(), commit=None, tags=()):
        self.name, self.files, self.lfs = name, files, set(lfs)
        digest = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commit = commit or digest
        self.revisions = {"main", self.commit, *tags}

    def etag(self, path):
        data = self.files[path]
        if path in self.lfs:
            return hashlib.sha256(data).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """One server. cut: path -> list of byte counts after which one answer each breaks off. status: path -> list of
    statuses that come before a good answer (a dict of header fields may follow each). length: path -> what
    Content-Length says in place of the truth. moved: files are redirected to this base URL."""

    def __init__(self, *repos):
        self.repos = {r.name: r for r in repos}
        self.cut, self.status, self.length, self.listed, self.tampered = {}, {}, {}, {}, {}
        self.moved = None
        self.ranges = True  # does it know Range?
        self.blobs = True  # does the list of files say sizes and hashes?
        self.secret = None  # the token that is asked for
        self.chunk_pause = 0
        self.seen = []  # (method, path, header fields)
        self.lock = threading.Lock()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.answer(self, body=True)

            def do_HEAD(self):
                hub.answer(self, body=False)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def gets(self, path):
        """The requests for the bytes of a file."""
        return [fields for method, p, fields in self.seen if method == "GET" and p.endswith("/" + path)]

    # ------------------------------------------------------------ answers

    def answer(self, h, body):
        path = urllib.parse.urlsplit(h.path).path
        with self.lock:
            self.seen.append((h.command, urllib.parse.unquote(path), dict(h.headers)))
            queue = self.status.get(urllib.parse.unquote(path).rsplit("/", 1)[-1])
            status = queue.pop(0) if queue else None
        if status is not None:
            fields = {}
            if isinstance(status, tuple):
                status, fields = status
            return self.send(h, status, b"no", fields, body)
        if self.secret and h.headers.get("Authorization") != f"Bearer {self.secret}":
            return self.send(h, 401, b"{}", {"X-Error-Message": "Invalid credentials"}, body)
        for pattern, call in (
            (r"/api/models/([^/]+/[^/]+)/revision/([^/]+)", self.info),
            (r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", self.tree),
            (r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.resolve),
            (r"/store/([^/]+/[^/]+)/(.+)", self.store),
        ):
            if found := re.fullmatch(pattern, path):
                groups = [urllib.parse.unquote(g) for g in found.groups()]
                if groups[0] in self.repos:
                    return call(h, body, self.repos[groups[0]], *groups[1:])
        return self.send(h, 404, b"{}", {"X-Error-Message": "Repository not found"}, body)

    def send(self, h, status, data, fields=None, body=True):
        h.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(fields or {})}.items():
            h.send_header(name, value)
        h.end_headers()
        if body:
            h.wfile.write(data)

    def send_json(self, h, value, body):
        self.send(h, 200, json.dumps(value).encode(), {"Content-Type": "application/json"}, body)

    def sibling(self, repo, path):
        entry = {"rfilename": path}
        if self.blobs:
            size = self.listed.get(path, len(repo.files[path]))
            entry |= {"size": size, "blobId": repo.etag(path)}
            if path in repo.lfs:
                entry |= {"blobId": "0" * 40, "lfs": {"sha256": repo.etag(path), "size": size, "pointerSize": 130}}
        return entry

    def info(self, h, body, repo, revision):
        if revision not in repo.revisions:
            return self.send(h, 404, b"{}", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "no revision"}, body)
        files = [self.sibling(repo, p) for p in repo.files]
        self.send_json(h, {"_id": "1", "id": repo.name, "modelId": repo.name, "sha": repo.commit, "private": False,
                           "tags": [], "downloads": 0, "likes": 0, "siblings": files}, body)  # fmt: skip

    def tree(self, h, body, repo, revision):
        entries = []
        for p, data in repo.files.items():
            entry = {"type": "file", "path": p, "size": len(data), "oid": repo.etag(p)}
            if p in repo.lfs:
                entry |= {"oid": "0" * 40, "lfs": {"oid": repo.etag(p), "size": len(data), "pointerSize": 130}}
            entries.append(entry)
        self.send_json(h, entries, body)

    def resolve(self, h, body, repo, revision, path):
        if revision not in repo.revisions or path not in repo.files:
            return self.send(h, 404, b"", {"X-Error-Code": "EntryNotFound"}, body)
        fields = {"X-Repo-Commit": repo.commit, "ETag": f'"{repo.etag(path)}"'}
        if path in repo.lfs:
            fields |= {"X-Linked-ETag": fields["ETag"], "X-Linked-Size": str(len(repo.files[path]))}
            fields["ETag"] = '"of-the-redirect"'
        if self.moved:
            where = f"{self.moved}/store/{repo.name}/{urllib.parse.quote(path)}"
            return self.send(h, 302, b"moved", {**fields, "Location": where}, body)
        self.send_file(h, body, repo, path, fields)

    def store(self, h, body, repo, path):
        self.send_file(h, body, repo, path, {})

    def send_file(self, h, body, repo, path, fields):
        data = self.tampered.get(path, repo.files[path])
        start, status = 0, 200
        found = re.fullmatch(r"bytes=(\d+)-", h.headers.get("Range", ""))
        if found and self.ranges:
            start, status = int(found.group(1)), 206
            if start >= len(data):
                return self.send(h, 416, b"", {"Content-Range": f"bytes */{len(data)}"}, body)
            fields |= {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        rest = data[start:]
        with self.lock:
            cut = self.cut[path].pop(0) if self.cut.get(path) else None
        h.send_response(status)
        for name, value in fields.items():
            h.send_header(name, value)
        h.send_header("Content-Length", str(self.length.get(path, len(rest))))
        h.send_header("Accept-Ranges", "bytes")
        h.end_headers()
        if not body:
            return
        try:
            h.wfile.write(rest if cut is None else rest[:cut])
        except OSError:
            pass
        if cut is not None or path in self.length:
            h.close_connection = True
