"""A Hub on this machine: as much of its HTTP protocol as creating, pushing, pinning and loading models takes.

Large files go the way of Git LFS, so the client needs `HF_HUB_DISABLE_XET=1`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

LARGE = (".safetensors", ".bin", ".onnx", ".model")


@dataclass
class Repository:
    """Commits, each a mapping of paths to contents, their messages, and the branches that name them."""

    private: bool = False
    name: str = ""
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    parents: dict[str, str | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.commit("main", {}, "initial commit")

    def commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        digests = {path: sha1(data) for path, data in files.items()}
        sha = sha1(json.dumps([self.name, len(self.commits), message, digests]).encode())
        self.commits[sha], self.parents[sha] = files, self.names.get(branch)
        self.messages.append(message)
        self.names[branch] = sha
        return sha

    def sha(self, revision: str) -> str | None:
        return revision if revision in self.commits else self.names.get(revision)

    def history(self, sha: str | None):
        while sha is not None:
            title = self.messages[list(self.commits).index(sha)]
            yield {"id": sha, "title": title, "message": "", "date": "2026-01-01T00:00:00.000Z", "authors": []}
            sha = self.parents[sha]


class Hub:
    """Repositories and users; what was asked of them is in `requests`, as "METHOD /path"."""

    def __init__(self):
        self.repositories: dict[str, Repository] = {}
        """Models by name; a Space has "spaces/" before its name."""
        self.users = {"hf_writer": "somebody", "hf_reader": "reader"}
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.faults: list[tuple[str, int | str]] = []
        """Patterns of "METHOD /path", and the status of the answer; "break" reads a part and hangs up."""
        self.endpoint = ""
        self.lock = threading.RLock()

    def add(self, name: str, folder: Path, private: bool = False) -> Repository:
        repository = self.repositories[name] = Repository(private, name)
        files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        repository.commit("main", files, "as it is on disk")
        return repository

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        repository = self.repositories[name]
        return repository.commits[repository.sha(revision)]

    @contextlib.contextmanager
    def serve(self):
        """Listen on this machine; `endpoint` is the URL."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        self.endpoint = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Answer(Exception):
    def __init__(self, status: int, content: bytes = b"", **headers: str):
        self.status, self.content, self.headers = status, content, headers


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else an answer's body waits 40 ms for the acknowledgment of its headers
    hub: Hub

    def do_GET(self):
        request = f"{self.command} {self.path}"
        self.hub.requests.append(request)
        status = next((status for pattern, status in self.hub.faults if re.search(pattern, request)), None)
        if status == "break":
            if self.command in ("POST", "PUT"):
                self.rfile.read(1)
            self.close_connection = True
            self.connection.close()
            return
        self.body = self.read_body()
        try:
            if status is not None:
                raise _Answer(status, b'{"error": "as the test wants it"}')
            with self.hub.lock:
                self.route(unquote(urlsplit(self.path).path))
            raise _Answer(404)
        except _Answer as answer:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.content)

    do_HEAD = do_POST = do_PUT = do_GET

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def route(self, path: str) -> None:
        model = r"/api/models/([^/]+/[^/]+)"
        routes = {
            r"POST /api/validate-yaml": self.validate,
            r"POST /api/repos/create": self.create,
            rf"GET {model}/commits/(.+)": self.history,
            rf"GET {model}(?:/revision/(.+))?": self.information,
            rf"GET {model}/tree/([^/]+)": self.tree,
            rf"POST {model}/preupload/([^/]+)": self.announce,
            rf"POST {model}/commit/([^/]+)": self.commit,
            rf"POST {model}/branch/([^/]+)": self.name,
            r"POST /([^/]+/[^/]+)\.git/info/lfs/objects/batch": self.batch,
            r"PUT /lfs/([0-9a-f]{64})": self.store,
            r"(?:GET|HEAD) /([^/]+/[^/]+)/resolve/([^/]+)/(.+)": self.resolve,
        }
        is_space = bool(re.match(r"(/api)?/spaces/", path))
        path = re.sub(r"^/api/spaces/", "/api/models/", path).removeprefix("/spaces")
        for pattern, handle in routes.items():
            if match := re.fullmatch(pattern, f"{self.command} {path}"):
                name, *others = match.groups() or ("",)
                handle(*([f"spaces/{name}" if is_space else name, *others] if match.groups() else ()))

    @property
    def user(self) -> str | None:
        return self.hub.users.get(self.headers.get("Authorization", "").removeprefix("Bearer "))

    def repository(self, name: str, revision: str | None = None, writes: bool = False) -> Repository:
        repository = self.hub.repositories.get(name)
        owner = name.removeprefix("spaces/").split("/")[0]
        if writes and self.user is None:
            raise _Answer(401, b'{"error": "Invalid username or password."}')
        if repository is None or (repository.private and self.user != owner):
            raise _Answer(404 if self.user else 401, X_Error_Code="RepoNotFound")
        if writes and self.user != owner:
            raise _Answer(403, b'{"error": "You do not have the rights."}')
        if revision is not None and repository.sha(revision) is None:
            raise _Answer(404, X_Error_Code="RevisionNotFound")
        return repository

    def files_of(self, name: str, revision: str | None) -> tuple[str, dict[str, bytes]]:
        repository = self.repository(name, revision or "main")
        sha = repository.sha(revision or "main")
        return sha, repository.commits[sha]

    def validate(self):
        """Refuse a card whose metadata are empty, as the Hub does."""
        match = re.match(r"---\n(.*?)\n---\n", json.loads(self.body)["content"], re.DOTALL)
        found = yaml.safe_load(match[1]) if match else {}
        names = [one for one in ("license", "library_name", "base_model") if one in found and not found[one]]
        errors = [{"message": f"{name} must not be empty"} for name in names]
        raise _json({"errors": errors, "warnings": []}, 400 if errors else 200)

    def create(self):
        wanted = json.loads(self.body)
        if self.user is None:
            raise _Answer(401, b'{"error": "Invalid username or password."}')
        if wanted["organization"] not in (None, self.user):
            raise _Answer(403, b'{"error": "You do not have the rights."}')
        name = f"{self.user}/{wanted['name']}"
        key = f"spaces/{name}" if wanted.get("type") == "space" else name
        url = f"{self.hub.endpoint}/{key}"
        if key in self.hub.repositories:
            raise _json({"error": "You already created this repo", "url": url}, 409)
        self.hub.repositories[key] = Repository(wanted.get("visibility") == "private", key)
        raise _json({"url": url, "name": name})

    def history(self, name, revision):
        repository = self.repository(name, revision)
        raise _json(list(repository.history(repository.sha(revision))))

    def information(self, name, revision):
        sha, files = self.files_of(name, revision)
        siblings = [{"rfilename": path} for path in sorted(files)]
        raise _json({"id": name, "sha": sha, "private": self.repository(name).private, "siblings": siblings})

    def tree(self, name, revision):
        files = self.files_of(name, revision)[1].items()
        raise _json([{"type": "file", "path": path, "oid": sha1(data), "size": len(data)} for path, data in files])

    def announce(self, name, revision):
        repository, modes = self.repository(name, revision, writes=True), []
        there = repository.commits[repository.names[revision]]
        for file in json.loads(self.body)["files"]:
            path = file["path"]
            mode = "lfs" if path.endswith(LARGE) else "regular"
            known = {"oid": content_tag(path, there[path])} if path in there else {}  # the client leaves these out
            modes.append({"path": path, "uploadMode": mode, "shouldIgnore": False, **known})
        raise _json({"files": modes})

    def batch(self, name):
        self.repository(name, writes=True)
        objects = []
        for wanted in json.loads(self.body)["objects"]:
            upload = {"upload": {"href": f"{self.hub.endpoint}/lfs/{wanted['oid']}"}}
            objects.append({**wanted, **({} if wanted["oid"] in self.hub.objects else {"actions": upload})})
        raise _json({"transfer": "basic", "objects": objects})

    def store(self, oid):
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise _Answer(400, b'{"error": "not what was announced"}')
        self.hub.objects[oid] = self.body
        raise _Answer(200)

    def commit(self, name, revision):
        repository = self.repository(name, revision, writes=True)
        files, message = dict(repository.commits[repository.names[revision]]), ""
        for line in self.body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            match operation["key"]:
                case "header":
                    message = value["summary"]
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.hub.objects[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        sha = repository.commit(revision, files, message)
        raise _json({"commitUrl": f"{self.hub.endpoint}/{name}/commit/{sha}", "commitOid": sha, "success": True})

    def name(self, name, new):
        repository = self.repository(name, writes=True)
        if new in repository.names:
            raise _json({"error": "Reference already exists"}, 409)
        repository.names[new] = repository.names["main"]
        raise _Answer(200)

    def resolve(self, name, revision, path):
        sha, files = self.files_of(name, revision)
        if path not in files:
            raise _Answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=sha)
        raise _Answer(200, files[path], ETag=f'"{content_tag(path, files[path])}"', X_Repo_Commit=sha)

    def log_message(self, *arguments):
        pass


def _json(content: object, status: int = 200) -> _Answer:
    return _Answer(status, json.dumps(content).encode(), Content_Type="application/json")


def sha1(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def content_tag(path: str, data: bytes) -> str:
    """The digest of a file in Git LFS, and of one in git."""
    return hashlib.sha256(data).hexdigest() if path.endswith(LARGE) else sha1(b"blob %d\0" % len(data) + data)
