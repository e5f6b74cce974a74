"""A small server on this computer that speaks the Hub's protocol, and misbehaves when told to.

It knows `/api/models/NAME/revision/main` and `/NAME/resolve/COMMIT/FILE` with ranges; `faults` holds, for the
part of a path, what to do instead of answering as it should, each once.
"""

import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Fault = Callable[["Handler", bytes], None]
LARGE = (".safetensors", ".spm")


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: "Hub"
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.server.asked.append((path, dict(self.headers)))
        content = self.server.content(path)
        for part, faults in self.server.faults.items():
            if part in path and faults:
                faults.pop(0)(self, content)
                return
        if not content:
            self.answer(404, b"", **{"X-Error-Code": "RepoNotFound"})
        elif path.startswith("/api/"):
            self.answer(200, content, **{"Content-Type": "application/json"})
        else:
            self.answer_range(content)

    def answer_range(self, content: bytes) -> None:
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        self.answer(206 if start else 200, content[start:], **headers)

    def answer(self, code: int, content: bytes, *, n_told: int | None = None, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if n_told is None else n_told))
        if n_told is not None:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(content)


class Hub(ThreadingHTTPServer):
    """The server; `models` are its files by name and file name."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.models: dict[str, dict[str, bytes]] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.card: dict[str, object] = {"license": "mit"}
        self.change_list: Callable[[dict[str, object]], object] = lambda values: values

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever hangs up in the middle, as a pause does, is no news."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def add_folder(self, name: str, folder: Path) -> None:
        self.models[name] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def content(self, path: str) -> bytes:
        if path.startswith("/api/models/"):
            name = path.removeprefix("/api/models/").removesuffix("/revision/main")
            files = self.models.get(name)
            return b"" if files is None else json.dumps(self.change_list(self.listed(name, files))).encode()
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        return self.models.get(name, {}).get(rest.removeprefix(f"{COMMIT}/"), b"")

    def listed(self, name: str, files: dict[str, bytes]) -> dict[str, object]:
        siblings: list[dict[str, object]] = []
        for file, content in files.items():
            one: dict[str, object] = {
                "rfilename": file,
                "size": len(content),
                "blobId": git_sha1(content),
            }
            if file.endswith(LARGE):
                one["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            siblings.append(one)
        return {"id": name, "sha": COMMIT, "cardData": self.card, "siblings": siblings, "tags": []}


@contextmanager
def running(hub: Hub) -> Iterator[Hub]:
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.005}, name="hub")
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()


# Faults


def status(code: int, **headers: str) -> Fault:
    return lambda handler, _content: handler.answer(code, b"no", **headers)


def drop_after(n_bytes: int) -> Fault:
    """Send so many bytes of what was asked for, then hang up."""

    def fault(handler: Handler, content: bytes) -> None:
        start = int(handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        rest = content[start:]
        handler.answer(206 if start else 200, rest[:n_bytes], n_told=len(rest))

    return fault


def slowly(done: threading.Event) -> Fault:
    """Send what was asked for in small pieces with pauses between them, until it is `done`."""

    def fault(handler: Handler, content: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        for start in range(0, len(content), 1 << 16):
            handler.wfile.write(content[start : start + (1 << 16)])
            if done.wait(0.02):
                handler.close_connection = True
                return

    return fault


def ignore_range(handler: Handler, content: bytes) -> None:
    handler.answer(200, content)


def lie_about_length(n_more: int) -> Fault:
    return lambda handler, content: handler.answer(200, content, n_told=len(content) + n_more)


def without_length(more: bytes = b"") -> Fault:
    """Send everything, and more, without saying how much it will be."""

    def fault(handler: Handler, content: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.close_connection = True
        handler.end_headers()
        handler.wfile.write(content + more)

    return fault


def changed(handler: Handler, content: bytes) -> None:
    handler.answer(200, content[:-1] + bytes([content[-1] ^ 1]))


def page(handler: Handler, _content: bytes) -> None:
    handler.answer(200, b"<!doctype html><title>Log in</title>", **{"Content-Type": "text/html"})


def redirect(address: str) -> Fault:
    return lambda handler, _content: handler.answer(302, b"", Location=address + handler.path)
