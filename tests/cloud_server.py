"""A server on the loopback address that answers as Google Cloud Storage and the Hugging Face Hub do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

BUCKET, REPOSITORY = "bucket", "datasets/someone/data"
_STORAGE, _HUB = f"storage/v1/b/{BUCKET}/o", f"/api/{REPOSITORY}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    files: Mapping[str, bytes]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        """Answer as a GET without content."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer a request for a file, facts about it, or a list of files."""
        address = urlsplit(self.path)
        path, query = address.path, parse_qs(address.query)
        if path.startswith((f"/{_STORAGE}", f"/download/{_STORAGE}")):
            self._storage(unquote(path.partition(_STORAGE)[2].lstrip("/")), query)
        elif path == _HUB or path.startswith(f"{_HUB}/revision/"):
            self._json({"id": "someone/data", "sha": "1" * 40, "siblings": [], "tags": []})
        elif path.startswith(f"{_HUB}/tree/"):
            self._tree(unquote(path.partition("/tree/")[2].partition("/")[2]))
        elif path.startswith(f"/{REPOSITORY}/resolve/"):
            self._file(unquote(path.partition("/resolve/")[2].partition("/")[2]))
        else:
            self._missing()

    def _storage(self, name: str, query: Mapping[str, list[str]]) -> None:
        if self.path.startswith("/download") or query.get("alt") == ["media"]:
            self._file(name)
        elif name in self.server.files:
            self._json(self._object(name))
        elif name:
            self._missing()
        else:
            prefix, mark = (query.get(one, [""])[0] for one in ("prefix", "delimiter"))
            names = [one for one in self.server.files if one.startswith(prefix)]
            deeper = [one for one in names if mark and mark in one[len(prefix) :]]
            folders = {prefix + one[len(prefix) :].split(mark)[0] + mark for one in deeper}
            items = [self._object(one) for one in names if one not in deeper]
            self._json({"kind": "storage#objects", "items": items, "prefixes": sorted(folders)})

    def _object(self, name: str) -> dict[str, str]:
        size, made = str(len(self.server.files[name])), "2024-01-01T00:00:00.000Z"
        facts = {"kind": "storage#object", "name": name, "bucket": BUCKET, "size": size}
        return facts | {"generation": "1", "etag": "1", "updated": made, "timeCreated": made}

    def _tree(self, folder: str) -> None:
        start = f"{folder}/" if folder else ""
        inside = [one for one in self.server.files if one.startswith(start)]
        files = [one for one in inside if "/" not in one[len(start) :]]
        folders = {start + one[len(start) :].split("/")[0] for one in inside if one not in files}
        found: list[dict[str, Any]] = [{"type": "directory", "path": one} for one in sorted(folders)]
        found += [{"type": "file", "path": one, "size": len(self.server.files[one])} for one in files]
        if found:
            self._json([one | {"oid": "0" * 40} for one in found])
        else:
            self._missing()

    def _file(self, name: str) -> None:
        content = self.server.files.get(name)
        if content is None:
            self._missing()
            return
        headers = {"Accept-Ranges": "bytes", "ETag": '"1"', "X-Repo-Commit": "1" * 40}
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if not asked:
            self._answer(200, content, headers)
            return
        first, _, last = asked.partition("-")
        end = min(int(last) + 1 if last else len(content), len(content))
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{len(content)}"
        self._answer(206, content[int(first) : end], headers)

    def _missing(self) -> None:
        headers = {"Content-Type": "application/json", "X-Error-Code": "EntryNotFound"}
        self._answer(404, b'{"error": {"code": 404, "message": "not found"}}', headers)

    def _json(self, value: Any) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[dict[str, str]]:
    """Serve files, and yield the settings of the environment that point to the server."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.files = files
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        yield {"STORAGE_EMULATOR_HOST": address, "HF_ENDPOINT": address, "HF_HUB_DISABLE_XET": "1"}
        server.shutdown()
