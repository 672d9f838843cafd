"""A Hub on this machine: as much of its HTTP protocol as creating, pushing, pinning and loading models takes."""

import base64
import hashlib
import json
import re
import secrets
import threading
import time
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import huggingface_hub
import pytest
import transformers.utils.hub
from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http

OWNER, TOKEN = "somebody", "hf_writer"


class Repository:
    """Commits from the oldest, each a mapping of paths to contents, their messages, and the commits of each branch."""

    def __init__(self, private=False):
        self.private, self.commits, self.messages, self.branches = private, {}, {}, {"main": ()}
        self.lock = threading.Lock()
        self.commit("main", {}, "initial commit")

    def commit(self, branch, files, message):
        sha = secrets.token_hex(20)
        self.commits[sha], self.messages[sha] = files, message
        self.branches[branch] = (*self.branches[branch], sha)
        return sha


class Hub(ThreadingHTTPServer):
    """Repositories by name, with "spaces/" before that of a Space; what was asked of them is in `requests`.

    A fault is a pattern of requests ("METHOD /path"), and the status of their answer; "break" hangs up.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.repositories, self.requests, self.faults = {}, [], []

    def add(self, name, files, private=False):
        """Make a repository of the files of a folder, or of names and contents; return it and its commit."""
        repository = self.repositories[name] = Repository(private)
        if not isinstance(files, dict):
            files = {file.name: file.read_bytes() for file in files.iterdir() if file.is_file()}
        return repository, repository.commit("main", files, "by hand")

    def files(self, name, revision="main"):
        repository = self.repositories[name]
        return repository.commits[repository.branches.get(revision, (revision,))[-1]]


class Handler(BaseHTTPRequestHandler):
    wbufsize = -1  # one packet for the headers and the body of an answer

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        request, body = f"{self.command} {path}", self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(request)
        fault = next((fault for pattern, fault in self.server.faults if re.search(pattern, request)), None)
        if fault == "break":
            return
        status, content, *headers = (fault, {}) if fault else self.answer(path, body)
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_POST = do_GET

    def answer(self, path, body):
        """Return a status, bytes or an object of JSON, and pairs of headers."""
        is_owner = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path == "/api/repos/create":
            return self.create(json.loads(body)) if is_owner else (401, {})
        pattern = r"(?:/api)?(?:/models)?(?:/(spaces))?/([^/]+/[^/]+)(?:/(\w+)/([^/]+)(?:/(.+))?)?"
        kind, name, what, revision, file = re.fullmatch(pattern, path).groups()
        repository = self.server.repositories.get(f"spaces/{name}" if kind else name)
        if repository is None or (repository.private and not is_owner):
            return 404, {}, ("X-Error-Code", "RepoNotFound")
        if self.command == "POST" and not is_owner:
            return 403, {}
        if what == "branch":
            known = repository.branches.setdefault(revision, ())
            repository.branches[revision] = known or repository.branches["main"]
            return 409 if known else 200, {}
        shas = repository.branches.get(revision or "main", (revision,))
        if shas[-1] not in repository.commits:
            return 404, {}, ("X-Error-Code", "RevisionNotFound")
        files, messages = repository.commits[shas[-1]], repository.messages
        tags = {path: hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() for path, data in files.items()}
        if what == "preupload":
            wanted = [one["path"] for one in json.loads(body)["files"]]
            known = {path: {"oid": tags[path]} for path in wanted if path in tags}  # the client leaves these out
            of_all = {"uploadMode": "regular", "shouldIgnore": False}
            return 200, {"files": [{"path": path, **of_all, **known.get(path, {})} for path in wanted]}
        if what == "commit":
            header, *changes = ((one["key"], one["value"]) for one in map(json.loads, body.splitlines()))
            added = {one["path"]: base64.b64decode(one["content"]) for key, one in changes if key == "file"}
            gone = {one["path"] for key, one in changes if key == "deletedFile"}
            with repository.lock:  # two uploads of a checkpoint may arrive together
                last = repository.commits[repository.branches[revision][-1]]
                kept = {path: data for path, data in last.items() if path not in gone}
                sha = repository.commit(revision, kept | added, header[1]["summary"])
            return 200, {"commitUrl": f"{self.server.endpoint}/{name}/commit/{sha}", "commitOid": sha, "success": True}
        if what == "commits":
            of_all = {"message": "", "date": "2026-01-01T00:00:00.000Z", "authors": []}
            return 200, [{"id": sha, "title": messages[sha], **of_all} for sha in reversed(shas)]
        if what == "tree" and file is None:
            return 200, [{"type": "file", "path": path, "oid": tags[path], "size": len(files[path])} for path in files]
        if what == "resolve" and file in files:
            return 200, files[file], ("ETag", f'"{tags[file]}"'), ("X-Repo-Commit", shas[-1])
        if what in (None, "revision"):
            siblings = [{"rfilename": path} for path in files]
            return 200, {"id": name, "sha": shas[-1], "private": repository.private, "siblings": siblings}
        return 404, {}, ("X-Error-Code", "EntryNotFound"), ("X-Repo-Commit", shas[-1])

    def create(self, wanted):
        if wanted["organization"] not in (None, OWNER):
            return 403, {}
        name = f"{'spaces/' if wanted.get('type') == 'space' else ''}{OWNER}/{wanted['name']}"
        url = {"url": f"{self.server.endpoint}/{name}"}
        if name in self.server.repositories:
            return 409, url
        self.server.repositories[name] = Repository(wanted.get("visibility") == "private")
        return 200, url

    def log_message(self, *arguments):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A running `Hub` that this process takes for the Hub, as its owner, without waiting between attempts."""
    with Hub() as served:
        threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True).start()
        template = f"{served.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "ENDPOINT", served.endpoint)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", served.endpoint)
        monkeypatch.setattr(transformers.utils.hub, "_hf_api", None)
        for module in (_http, file_download):
            monkeypatch.setattr(module, "time", types.SimpleNamespace(sleep=lambda seconds: None, time=time.time))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield served
        served.shutdown()
