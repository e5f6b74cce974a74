"""The one way of downloading a model: into `.part` files of the library's cache, verified, then a snapshot.

A generator: a `for` that stops, for a pause or for good, leaves `.part` files, and the next one goes on from
them. Nothing is a snapshot before every file has the size and the digest that the Hub named.
"""

import hashlib
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from attnscope.counting import bytes_text
from attnscope.errors import LoadError
from attnscope.files import replace_file
from attnscope.hub.asking import Trouble, file_chunks
from attnscope.hub.library import hub_cache, require_network
from attnscope.hub.shelf import CONFIG, PART_ENDING, bytes_here, part_paths, repository_folder
from attnscope.records.shelf import FetchStep, HubFile, ModelOffer

PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Before each try after the first, while nothing new comes."""
_LONGEST_WAIT_S = 120.0
_PACE_OVER_S, _PACE_FROM_S = 6.0, 0.5
_CHUNK_BYTES = 1 << 20
Clock = Callable[[], float]


class _Advance(NamedTuple):
    """Bytes of a file that are there, new ones or read again; seconds to wait before it goes on, and why."""

    n: int
    is_new: bool = True
    wait_s: float = 0.0
    why: str = ""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def fetch(offer: ModelOffer, *, clock: Clock = time.monotonic) -> Generator[FetchStep, None, None]:
    """Download what was offered; raises LoadError with the reason, and what came stays for the next time."""
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
    """Download what was offered, with pauses where needed; `hear` gets every step. Raises LoadError."""
    with closing(fetch(offer)) as steps:
        for step in steps:
            hear(step)
            if step.wait_s:
                pause(step.wait_s)


def forget_parts(name: str) -> None:
    """Remove what has come of a download that is not wanted any more; raises LoadError."""
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
        """The pace now that `n_done` bytes are there; None until it can be told."""
        now = self.clock()
        self._seen.append((now, n_done))
        while len(self._seen) > 2 and now - self._seen[1][0] > _PACE_OVER_S:
            self._seen.popleft()
        since, n_then = self._seen[0]
        return (n_done - n_then) / (now - since) if now - since >= _PACE_FROM_S else None

    def forget(self) -> None:
        """Begin anew: bytes that were there already say nothing."""
        self._seen.clear()


def _fetched(offer: ModelOffer, file: HubFile, blobs: Path) -> Iterator[_Advance]:
    """Have a file verified in its `.part` file, or where a file of the cache already is."""
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
    """Write some of the bytes; gives how many."""
    return os.write(descriptor, data)


def _streamed(offer: ModelOffer, file: HubFile, target: _Target) -> Generator[_Advance, None, _Digest]:
    """Fetch what the file lacks; connections that break off are tried again while something new comes."""
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
    """SHA-256, or for small files what Git calls a blob: SHA-1 over a header and the content."""
    if len(file.digest) == 64:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.n_bytes, usedforsecurity=False)


def _publish(offer: ModelOffer, blobs: Path) -> None:
    """Make the verified files a snapshot: config.json, by which it is found, and the reference last."""
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
    """Let `place` of a snapshot be the file: a link, else another name for it, else a copy."""
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
    """While it lasts, no other AttnScope downloads this model; raises LoadError where one does."""
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
