"""The one way to download a model: into `.part` files of the cache, verified, then a snapshot.

A generator: a `for` that stops, for a pause or for good, leaves `.part` files, and the next one goes on from
them. Nothing is a snapshot before every file has the size and the digest that the Hub named.

Talking to the Hub: what a download of a model would be, and the bytes of one file.

Redirects lead a file to whatever server stores it, never from https to http, and without the user's token:
what comes is taken only when it has the digest that the Hub itself named. The Hub's own answers come from the
Hub. Plain `urllib`, because the Hub's library can neither pause nor verify, and opens the network for the
whole process.
"""

import hashlib
import importlib
import os
import re
import shutil
import ssl
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, NamedTuple, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from attnscope import __version__
from attnscope.counting import bytes_text
from attnscope.errors import LoadError
from attnscope.files import replace_file
from attnscope.hub.shelf import (
    CONFIG,
    INDEX,
    PART_ENDING,
    WEIGHTS,
    bytes_here,
    hub_address,
    hub_cache,
    hub_host,
    hub_token,
    is_model_id,
    part_paths,
    repository_folder,
    require_network,
)
from attnscope.outside import parse_object
from attnscope.records.models import DOWNLOAD_PREFIX, FetchStep, HubFile, ModelOffer

TIMEOUT_S = 10.0
_READ_BYTES = 1 << 16
_MOST_BYTES = 10_000_000
"""Of an answer that lists a model's files."""
_MOST_FILE_BYTES = 1 << 45
_TRY_AGAIN = "Check the connection, and try again."
_SHARD = re.compile(r"model-\d{1,6}-of-\d{1,6}\.safetensors")
_ENDINGS = (".json", ".txt", ".model", ".spm")
_OTHERS = ("optimizer", "training_args")
_CARD = "README.md"
_NAME = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
_COMMIT, _DIGEST = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".ot", ".gguf", ".onnx")


class Trouble(Exception):
    """A failed request: the message, and the delay before a retry.

    `wait_s` is None where trying again would not help.
    """

    def __init__(self, error: LoadError, *, wait_s: float | None = None) -> None:
        self.error, self.wait_s = error, wait_s
        super().__init__(str(error))


def ask_hub(name: str) -> ModelOffer:
    """List the files of a model to download: configuration, tokenizer and safetensors only.

    Raises LoadError with the reason.
    """
    if not is_model_id(name):
        raise LoadError(
            f"{name[:100]!r} is not the name of a model on the Hub.",
            kind="missing",
            expected=f"{DOWNLOAD_PREFIX}owner/name",
            action="Copy the name from the model's page.",
        )
    require_network()
    url = f"{hub_address()}/api/models/{quote(name)}/revision/main?blobs=true"
    try:
        with _opened(url, name, is_bound=True) as response:
            content = response.read(_MOST_BYTES + 1)
            _refuse_page(response, content, name)
    except Trouble as trouble:
        raise trouble.error from trouble
    if len(content) > _MOST_BYTES:
        raise _no_answer(name, f"it is longer than {_MOST_BYTES:,} bytes")
    try:
        values = parse_object(content, what="the list of its files")
    except LoadError as error:
        raise _no_answer(name, error.happened) from error
    commit = values.get("sha")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise _no_answer(name, "it names no commit")
    files = _wanted(name, values.get("siblings"))
    return ModelOffer(
        name=name,
        host=hub_host(),
        commit=commit,
        licence=_licence(values),
        files=files,
        n_here=sum(bytes_here(name, file) for file in files),
    )


def file_chunks(offer: ModelOffer, file: HubFile, start: int) -> Iterator[bytes]:
    """The bytes of a file from `start` on, as they arrive; raises Trouble.

    The first chunk is empty where the server sends the whole file though only its rest was asked for.
    """
    url = f"{hub_address()}/{quote(offer.name)}/resolve/{offer.commit}/{quote(file.name)}"
    with _opened(url, offer.name, start=start) as response:
        if start and response.status != 206:
            start = 0
            yield b""
        _refuse_page(response, b"", offer.name)
        told = response.headers.get("Content-Length", "")
        if told.isascii() and told.isdigit() and int(told) != file.n_bytes - start:
            raise Trouble(
                _refusal(
                    offer.name,
                    f"{file.name} would come with {int(told) + start:,} bytes",
                    expected=f"{file.n_bytes:,}, as the Hub lists it",
                )
            )
        while chunk := response.read1(_READ_BYTES):
            yield chunk


@contextmanager
def _opened(url: str, name: str, *, start: int = 0, is_bound: bool = False) -> Iterator[HTTPResponse]:
    """A response of the server; any error inside the block becomes Trouble."""
    request = Request(url, headers={"User-Agent": f"attnscope/{__version__}", "Accept-Encoding": "identity"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    if token := hub_token():
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with _opener(is_bound).open(request, timeout=TIMEOUT_S) as response:
            yield response
    except HTTPError as error:
        with error:
            raise _refused(name, error) from error
    except (OSError, HTTPException, ValueError) as error:
        raise Trouble(_unreachable(name, error), wait_s=0.0) from error


@cache
def _opener(is_bound: bool) -> OpenerDirector:
    return build_opener(_Redirects(is_bound), HTTPSHandler(context=_trusted()))


def _trusted() -> ssl.SSLContext:
    """Trusted certificates: the system's, if the Hub's library brings the means; else Python's."""
    try:
        context: ssl.SSLContext = importlib.import_module("truststore").SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    except ImportError:
        return ssl.create_default_context()
    return context


class _Redirects(HTTPRedirectHandler):
    """Follows redirects to https, or to nothing less secure than the origin; bound: on the same server
    only.
    """

    def __init__(self, is_bound: bool) -> None:
        self._is_bound = is_bound

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        is_same = (old.scheme, old.netloc) == (new.scheme, new.netloc)
        if new.scheme not in ("https", old.scheme) or (self._is_bound and not is_same):
            fp.close()
            place = f"{new.scheme}://{new.netloc}"[:100]
            raise Trouble(_refusal(urlsplit(req.full_url).netloc, f"it redirects to {place}"))
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if following is not None and token and is_same:
            following.add_unredirected_header("Authorization", token)
        return following


def _refused(name: str, error: HTTPError) -> Trouble:
    host, reason = hub_host(), error.headers.get("X-Error-Code", "") if error.headers else ""
    code = error.code
    if code == 429:
        wait = error.headers.get("Retry-After", "")
        wait_s = float(wait) if wait.isascii() and wait.isdigit() else 60.0
        told = LoadError(
            f"{host} asks to wait {wait_s:,.0f} s: it received too many requests from this address.",
            kind="busy",
            action="Wait that long, then try again.",
        )
        return Trouble(told, wait_s=wait_s)
    if code >= 500:
        what = f"{name} could not be downloaded: {host} answered {code}, an error of the server."
        return Trouble(LoadError(what, kind="download", action="Try again later."), wait_s=0.0)
    if reason == "GatedRepo" or code == 403:
        why = "it is given only to those who have accepted its terms on the Hub"
        action = f"Accept them at {host}/{name}, log in with hf auth login, and try again."
    elif code in (401, 404) and reason in ("", "RepoNotFound"):
        why = "the Hub has no public model of this name"
        action = "Check the name, owner/name, on its page. For a private model log in: hf auth login."
    else:
        why, action = f"{host} answered {code} ({reason or error.reason})", "Choose another model."
    return Trouble(LoadError(f"{name} could not be downloaded: {why}.", kind="download", action=action))


def _unreachable(name: str, error: Exception) -> LoadError:
    reason = error.reason if isinstance(error, URLError) else error
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return LoadError(
        f"{name} could not be downloaded: {hub_host()} cannot be reached ({words[:120]}).",
        kind="unreachable",
        action=_TRY_AGAIN,
    )


def _refuse_page(response: HTTPResponse, content: bytes, name: str) -> None:
    if response.headers.get_content_type() == "text/html" or content.lstrip()[:1] == b"<":
        raise Trouble(
            LoadError(
                f"{name} could not be downloaded: what came is a web page.",
                kind="download",
                expected="the answer of a Hub",
                action="Some networks require a login first: open any page in a browser, then try again.",
            )
        )


def _wanted(name: str, listed: object) -> tuple[HubFile, ...]:
    """The files to fetch, the weights last; raises LoadError if none could be opened."""
    found = {}
    for one in listed if isinstance(listed, list) else ():
        file = _hub_file(one)
        if file is not None:
            found[file.name] = file
    weights = [WEIGHTS] if WEIGHTS in found else sorted(n for n in found if _SHARD.fullmatch(n))
    if not weights or (weights != [WEIGHTS] and INDEX not in found) or CONFIG not in found:
        raise _nothing_to_open(name, listed)
    small = sorted(n for n in found if _is_small(n) or (n == INDEX and weights != [WEIGHTS]))
    return tuple(found[n] for n in (*small, *weights))


def _is_small(name: str) -> bool:
    is_kind = name == _CARD or (name.endswith(_ENDINGS) and not name.endswith(".index.json"))
    return is_kind and not name.startswith(_OTHERS)


def _hub_file(value: object) -> HubFile | None:
    """A file of the list; None for one in a subfolder, or without a size or digest."""
    if not isinstance(value, dict):
        return None
    large = value.get("lfs")
    digest = large.get("sha256") if isinstance(large, dict) else value.get("blobId")
    name, n_bytes = value.get("rfilename"), value.get("size")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or type(n_bytes) is not int:
        return None
    if not 0 <= n_bytes < _MOST_FILE_BYTES or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return None
    return HubFile(name=name, n_bytes=n_bytes, digest=digest)


def _nothing_to_open(name: str, listed: object) -> LoadError:
    ones = listed if isinstance(listed, list) else []
    names = [str(one.get("rfilename")) for one in ones if isinstance(one, dict)]
    others = [n for n in names if n.endswith(_PICKLES) and "/" not in n]
    found = f"only {', '.join(others[:3])[:100]}" if others else "nothing that AttnScope can read"
    if CONFIG not in names:
        found = f"no {CONFIG}"
    return LoadError(
        f"{name} was not downloaded: the Hub has {found}.",
        kind="weights",
        expected=f"{CONFIG}, a tokenizer and weights as safetensors; pickles are never fetched",
        action="Choose another model, or one that has been converted.",
    )


def _licence(values: dict[str, object]) -> str:
    card, tags = values.get("cardData"), values.get("tags")
    named = card.get("license_name") or card.get("license") if isinstance(card, dict) else None
    for tag in tags if isinstance(tags, list) and not named else ():
        if isinstance(tag, str) and tag.startswith("license:"):
            named = tag.removeprefix("license:")
    words = ", ".join(map(str, named)) if isinstance(named, list) else named
    return "".join(c for c in words if c.isprintable())[:80] if isinstance(words, str) else ""


def _no_answer(name: str, reason: str) -> LoadError:
    return _refusal(name, f"what {hub_host()} answered cannot be used ({reason.rstrip('.')[:200]})")


def _refusal(name: str, why: str, *, expected: str = "") -> LoadError:
    return LoadError(
        f"{name} could not be downloaded: {why}.",
        kind="download",
        expected=expected,
        action="Try again later; a file that differs from the Hub's list is never kept.",
    )


PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Before each try after the first, while nothing new comes."""
_LONGEST_WAIT_S = 120.0
_PACE_OVER_S, _PACE_FROM_S = 6.0, 0.5
_CHUNK_BYTES = 1 << 20
Clock = Callable[[], float]


class _Advance(NamedTuple):
    """Bytes of a file present, new or read again; seconds to wait before it continues, and why."""

    n: int
    is_new: bool = True
    wait_s: float = 0.0
    why: str = ""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def fetch(offer: ModelOffer, *, clock: Clock = time.monotonic) -> Generator[FetchStep, None, None]:
    """Download an offered model; raises LoadError, and keeps the part received for next time."""
    require_network()
    blobs = repository_folder(offer.name) / "blobs"
    pace = FetchPace(clock)
    with _told_of_folder(blobs), _alone(offer.name):
        blobs.mkdir(parents=True, exist_ok=True)
        _require_room(offer, blobs)
        n_before = 0
        for file in offer.files:
            for step in _fetched(offer, file, blobs):
                n_done = n_before + step.n
                if not step.is_new:
                    pace.forget()
                per_s = pace.of(n_done)
                yield FetchStep(
                    n_done=n_done,
                    n_total=offer.n_bytes,
                    per_s=per_s,
                    remaining_s=(offer.n_bytes - n_done) / per_s if per_s else None,
                    wait_s=step.wait_s,
                    why=step.why,
                )
            n_before += file.n_bytes
        _publish(offer, blobs)


def fetch_now(
    offer: ModelOffer, hear: Callable[[FetchStep], None], *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Download an offered model, with pauses if needed; `hear` gets every step. Raises LoadError."""
    with closing(fetch(offer)) as steps:
        for step in steps:
            hear(step)
            if step.wait_s:
                pause(step.wait_s)


def forget_parts(name: str) -> None:
    """Remove the parts of a cancelled download; raises LoadError."""
    repository = repository_folder(name)
    with _told_of_folder(repository), _alone(name):
        for path in part_paths(name):
            path.unlink()
        for folder in (repository / "blobs", repository):
            try:
                folder.rmdir()
            except OSError:
                return  # other files of the model are there


@dataclass(slots=True)
class FetchPace:
    """Bytes a second over the last seconds."""

    clock: Clock
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def of(self, n_done: int) -> float | None:
        """The pace now that `n_done` bytes are there; None until known."""
        now = self.clock()
        self._seen.append((now, n_done))
        while len(self._seen) > 2 and now - self._seen[1][0] > _PACE_OVER_S:
            self._seen.popleft()
        since, n_then = self._seen[0]
        return (n_done - n_then) / (now - since) if now - since >= _PACE_FROM_S else None

    def forget(self) -> None:
        """Restart: bytes already present say nothing about the pace."""
        self._seen.clear()


def _fetched(offer: ModelOffer, file: HubFile, blobs: Path) -> Iterator[_Advance]:
    """Get a file verified in its `.part` file, or at its place in the cache."""
    whole, part = blobs / file.digest, blobs / f"{file.digest}{PART_ENDING}"
    if whole.is_file() and whole.stat().st_size == file.n_bytes:
        digest = _digest_of(file)
        yield from _read_into(digest, whole)
        if digest.hexdigest() == file.digest:
            return
        whole.unlink()  # it is another file than its name says
    if part.is_file() and part.stat().st_size > file.n_bytes:
        part.unlink()
    digest = _digest_of(file)
    n = 0
    if part.is_file():
        n = yield from _read_into(digest, part)
    with open(part, "ab", buffering=0) as stream:
        digest = yield from _streamed(offer, file, _Target(stream.fileno(), part, digest, n))
        os.fsync(stream.fileno())
    if digest.hexdigest() != file.digest:
        part.unlink()
        raise LoadError(
            f"{offer.name} could not be downloaded: the file {file.name} is not the one that the Hub lists "
            "(its checksum differs).",
            kind="checksum",
            expected=f"{'SHA-256' if len(file.digest) == 64 else 'Git SHA-1'} {file.digest}",
            action="It was deleted. Try again; if it happens again, something changes files on the way.",
        )


@dataclass(slots=True)
class _Target:
    """A `.part` file being written: its bytes so far and their digest."""

    descriptor: int
    path: Path
    digest: _Digest
    n: int

    def add(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        try:
            while view:
                view = view[write_bytes(self.descriptor, view) :]
        except OSError as error:
            raise _unwritable(self.path.parent, error) from error
        self.digest.update(chunk)
        self.n += len(chunk)

    def begin_anew(self, digest: _Digest) -> None:
        os.ftruncate(self.descriptor, 0)
        self.digest, self.n = digest, 0


def write_bytes(descriptor: int, data: memoryview) -> int:
    """Write some of the bytes; returns how many."""
    return os.write(descriptor, data)


def _streamed(offer: ModelOffer, file: HubFile, target: _Target) -> Generator[_Advance, None, _Digest]:
    """Fetch the rest of the file; dropped connections are retried while new data arrives."""
    most, n_tries = target.n, 0
    while target.n < file.n_bytes:
        try:
            for chunk in file_chunks(offer, file, target.n):
                if not chunk:
                    target.begin_anew(_digest_of(file))
                    continue
                if target.n + len(chunk) > file.n_bytes:
                    target.begin_anew(_digest_of(file))
                    raise Trouble(_longer(offer, file))
                target.add(chunk)
                yield _Advance(target.n)
            if target.n < file.n_bytes:
                raise Trouble(_broken_off(offer), wait_s=0.0)
        except Trouble as trouble:
            n_tries = 1 if target.n > most else n_tries + 1
            most = max(most, target.n)
            wait_s = trouble.wait_s
            if wait_s is None or wait_s > _LONGEST_WAIT_S or n_tries > len(PAUSES_S):
                raise trouble.error from trouble
            pause_s = max(wait_s, PAUSES_S[n_tries - 1])
            yield _Advance(target.n, wait_s=pause_s, why=trouble.error.happened)
    return target.digest


def _read_into(digest: _Digest, path: Path) -> Generator[_Advance, None, int]:
    n = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
            n += len(chunk)
            yield _Advance(n, is_new=False)
    return n


def _digest_of(file: HubFile) -> _Digest:
    """SHA-256, or for small files Git's blob hash: SHA-1 over a header and the content."""
    if len(file.digest) == 64:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.n_bytes, usedforsecurity=False)


def _publish(offer: ModelOffer, blobs: Path) -> None:
    """Make a snapshot of the verified files: config.json, by which it is found, and the reference last."""
    snapshot = blobs.parent / "snapshots" / offer.commit
    snapshot.mkdir(parents=True, exist_ok=True)
    for file in sorted(offer.files, key=lambda file: file.name == CONFIG):
        whole = blobs / file.digest
        part = whole.with_name(whole.name + PART_ENDING)
        if part.exists():
            os.replace(part, whole)
        _point(snapshot / file.name, whole)
    reference = blobs.parent / "refs" / "main"
    reference.parent.mkdir(exist_ok=True)
    replace_file(reference, offer.commit.encode())


def _point(place: Path, whole: Path) -> None:
    """Make `place` in a snapshot refer to the file: a link, else another name for it, else a copy."""
    place.unlink(missing_ok=True)
    try:
        place.symlink_to(os.path.relpath(whole, place.parent))
    except OSError:
        try:
            os.link(whole, place)
        except OSError:
            shutil.copyfile(whole, place)


def _require_room(offer: ModelOffer, blobs: Path) -> None:
    needed = offer.n_bytes - sum(bytes_here(offer.name, file) for file in offer.files)
    free = shutil.disk_usage(blobs).free
    if needed > free:
        raise LoadError(
            f"{offer.name} needs {bytes_text(needed)} and {blobs} has {bytes_text(free)} left.",
            kind="full",
            action="Free some space, or set HF_HOME to a folder on another disk.",
        )


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Lock the download of this model against other AttnScopes; raises LoadError if one holds it."""
    from filelock import FileLock, Timeout  # a part of huggingface_hub

    place = hub_cache() / ".locks" / repository_folder(name).name
    place.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(place / "attnscope.lock", timeout=0):
            yield
    except Timeout as error:
        raise LoadError(
            f"Another AttnScope is downloading {name}.", kind="busy", action="Wait until it is done."
        ) from error


@contextmanager
def _told_of_folder(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> LoadError:
    return LoadError(
        f"Nothing more can be written into {folder}: {error.strerror or error}.",
        kind="full",
        action=(
            "What has been downloaded is kept. Free some space, or set HF_HOME to another folder, and "
            "continue."
        ),
    )


def _broken_off(offer: ModelOffer) -> LoadError:
    return LoadError(
        f"The connection to {offer.host} broke off.",
        kind="unreachable",
        action="What has been downloaded is kept. Check the connection, and continue.",
    )


def _longer(offer: ModelOffer, file: HubFile) -> LoadError:
    return LoadError(
        f"{offer.name} could not be downloaded: {file.name} is longer than the Hub lists.",
        kind="download",
        expected=f"{file.n_bytes:,} bytes",
        action="Nothing of it was kept. Try again later.",
    )
