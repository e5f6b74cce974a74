"""The shelf of well-known open models, what the Hub offers of one, and how far a download is."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from attnscope.codec import Between
from attnscope.counting import bytes_text, time_left
from attnscope.records.requests import News, Reply, Request

Place = Literal["package", "cache", "partial", "away"]
"""Where a model is: in an installed package, in the local cache, there in part, or not on this computer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfEntry:
    """A model on the shelf: `name` is its owner/name on the Hub, `about_mb` roughly what is downloaded.

    Where an installed Python package carries the model, `package` names it, `file` the weights inside it
    (their folder holds config.json and the tokenizer), `sha256` what the weights must be, `short` the name
    that it then has among the models, which is that of the extra of AttnScope that installs the package.
    """

    name: str
    title: str
    kind: str
    look_for: str
    n_parameters: Annotated[int, Between(1, 2**53)]
    about_mb: Annotated[int, Between(1, 2**31)]
    licence: str
    package: str = ""
    file: str = ""
    sha256: str = ""
    short: str = ""


def unlisted(name: str) -> ShelfEntry:
    """A model that is not on the shelf: nothing is known of it."""
    return ShelfEntry(name=name, title=name, kind="", look_for="", n_parameters=0, about_mb=0, licence="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfRow:
    """A model and where it is; `source` opens it where it is on this computer, else it is empty.

    `n_bytes` is what lies on this computer of it. A model of the cache that is not on the shelf has an
    entry without words.
    """

    entry: ShelfEntry
    place: Place
    source: str = ""
    n_bytes: int = 0

    @property
    def is_here(self) -> bool:
        """Whether it opens without the network."""
        return bool(self.source)


def size_words(row: ShelfRow) -> str:
    """What a model weighs: exactly where it is here, else about; empty where nobody has been asked yet."""
    if row.is_here:
        return bytes_text(row.n_bytes)
    return f"about {bytes_text(row.entry.about_mb * 1e6)}" if row.entry.about_mb else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file of a model on the Hub. `digest` is its SHA-256, or SHA-1 as Git counts it for a small file."""

    name: str
    n_bytes: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOffer:
    """What a download would fetch, as the server at `host` said; `n_here` bytes of it are here already."""

    name: str
    host: str
    commit: str
    licence: str
    files: tuple[HubFile, ...]
    n_here: int = 0

    @property
    def n_bytes(self) -> int:
        return sum(file.n_bytes for file in self.files)

    @property
    def n_missing(self) -> int:
        """What a download would fetch now."""
        return self.n_bytes - self.n_here


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStep:
    """How far a download is; `per_s` and `remaining_s` are None until they are known.

    With `wait_s` the next try is to be made after so many seconds, for the reason `why`.
    """

    n_done: int
    n_total: int
    per_s: float | None = None
    remaining_s: float | None = None
    wait_s: float = 0.0
    why: str = ""


def progress_words(step: FetchStep) -> str:
    """How far a download is: `120 MB of 550 MB, 4.2 MB/s, about 2 min left`."""
    words = [f"{bytes_text(step.n_done)} of {bytes_text(step.n_total)}"]
    if step.wait_s:
        return f"{words[0]}; {step.why} Next try in {step.wait_s:.0f} s"
    if step.per_s is not None:
        words.append(f"{bytes_text(step.per_s)}/s")
    if step.remaining_s:
        words.append(time_left(step.remaining_s))
    return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowShelf(Request):
    """List the shelf, the models on this computer first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskModel(Request):
    """Ask the Hub what a download of `name` would be."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchModel(Request):
    """Download what was offered."""

    offer: ModelOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFetching(Request):
    """End the download; what has come of it stays for the next time, or goes."""

    name: str
    keeps: bool


ShelfRequest = ShowShelf | AskModel | FetchModel | StopFetching


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfShown(Reply):
    """The models, those on this computer first; `host` is who would be asked for the others."""

    rows: tuple[ShelfRow, ...]
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOffered(Reply):
    """The answer to AskModel."""

    offer: ModelOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchNews(News):
    """A step of the download under way."""

    name: str
    step: FetchStep

    @property
    def fraction(self) -> float:
        return self.step.n_done / max(self.step.n_total, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchEnded(Reply):
    """The download is over: everything is here and verified, or it ended before.

    Then `offer` says again what there is, and how much of it is here now.
    """

    name: str
    is_whole: bool = False
    offer: ModelOffer | None = None


ShelfReply = ShelfShown | ModelOffered | FetchNews | FetchEnded


DOWNLOAD_PREFIX = "hf:"


def is_download(source: str) -> bool:
    """Whether opening `source` may read the network."""
    return source.startswith(DOWNLOAD_PREFIX)


def on_this_machine(source: str) -> str:
    """The source of a model that a file names: what a person did not ask for is not downloaded."""
    while is_download(source):
        source = source.removeprefix(DOWNLOAD_PREFIX).strip()
    return source


def typed_name(text: str) -> str:
    """The owner/name that a person types, with or without the prefix, or copies as the address of a page."""
    name = on_this_machine(text.strip())
    _, is_address, rest = name.partition("://")
    return "/".join(re.split("[?#]", rest)[0].split("/")[1:3]) if is_address else name
