"""A server on this machine that speaks as much of the Hub's protocol as reading a model takes."""

import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextlib.contextmanager
def serve(root: Path, token: str | None = None):
    """Serve the folders `root/owner/name` as model repositories; yields the endpoint's URL.

    With a token every request must carry it, as for a private repository.
    """

    class Hub(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer(body=True)

        def answer(self, body):
            path = self.path.partition("?")[0]
            if token and self.headers.get("Authorization") != f"Bearer {token}":
                return self.reply(401, b"", body, {"X-Error-Code": "RepoNotFound"})
            if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/[^/]+)?", path):
                folder = root / match[1]
                if not folder.is_dir():
                    return self.reply(404, b"", body, {"X-Error-Code": "RepoNotFound"})
                files = [{"rfilename": file.name} for file in sorted(folder.iterdir())]
                return self.reply_json({"id": match[1], "sha": COMMIT, "siblings": files}, body)
            if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/[^/]+(/.*)?", path):
                folder = root / match[1] / (match[2] or "").strip("/")
                if not folder.is_dir():
                    return self.reply(404, b"", body, {"X-Error-Code": "EntryNotFound"})
                files = [
                    {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": etag(file)}
                    for file in sorted(folder.iterdir())
                ]
                return self.reply_json(files, body)
            if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
                file = root / match[1] / match[3]
                if not file.is_file():
                    code = "EntryNotFound" if (root / match[1]).is_dir() else "RepoNotFound"
                    return self.reply(404, b"", body, {"X-Error-Code": code, "X-Repo-Commit": COMMIT})
                return self.reply(200, file.read_bytes(), body, {"ETag": f'"{etag(file)}"', "X-Repo-Commit": COMMIT})
            return self.reply(404, b"", body)

        def reply_json(self, content, body):
            self.reply(200, json.dumps(content).encode(), body, {"Content-Type": "application/json"})

        def reply(self, status, content, body, headers=None):
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def etag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
