"""Facts about a model without the model itself; the shelf of well-known open models, the Hub's offer of one,
and the progress of a download.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from attnscope.codec import Between
from attnscope.counting import bytes_text, time_left
from attnscope.errors import UserError
from attnscope.records.requests import News, Reply, Request
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site, SiteKey

Form = Literal["encoder", "decoder", "encoder-decoder"]
InputKind = Literal["text", "picture", "recording", "attention"]
SOURCE = "source"
Source = Annotated[str, SOURCE]
"""Source of a model, such as a path: files store it relative to themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sentence worth looking at, with a hint of what to look for, and one to compare it with."""

    text: str
    target: str | None = None
    language: str = "en"
    hint: str = ""
    pair: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """A loaded model in words and numbers; `sha256` is of its weights file.

    `body` names the cells of a recurrent model ("GRU"), and is empty for every other; `mixer` is what moves
    numbers between tokens in the place of attention ("retention").
    `architecture` is the library's class for a model of another library, `licence` what its files name.
    `gates` are those the model is opened with, since its training may have closed heads. `reads_pairs` says
    that two sentences may be read together, `reads` what the text is or names; what reads "attention" is
    recorded attention: it has one text and no model (`is_recorded`), and `site_names` are the modules that
    its sites were. `labels` are all that one of our own models may say of a text, where it tells labels.
    `picture_px` is the height and width at which pictures are read. `guided` is the head to be looked at
    first: the one that learned word links in training, or that its maker names. `words` are those that a text
    may be written with, and those of its target, where they are whole and few. `writes` says what a second
    text is, such as "summary". Without `has_gates` its attention is computed out of reach, and no head can be
    turned down or edited. With `tells_each` every label is told by itself, by the sigmoid of its logit.
    """

    name: str
    source: str
    form: Form
    objective: str
    n_parameters: int
    max_tokens: int
    vocab_size: int
    tokenizer: str
    device: str
    sha256: str
    sites: tuple[Site, ...]
    gates: Gates = NO_GATES
    samples: tuple[Sample, ...] = ()
    note: str = ""
    can_read_past: bool = False
    architecture: str = ""
    body: str = ""
    mixer: str = ""
    licence: str = ""
    reads_pairs: bool = False
    reads: InputKind = "text"
    labels: tuple[str, ...] = ()
    site_names: tuple[tuple[SiteKey, str], ...] = ()
    picture_px: tuple[int, int] | None = None
    guided: HeadRef | None = None
    words: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    writes: str = "translation"
    has_gates: bool = True
    tells_each: bool = False

    @property
    def is_recorded(self) -> bool:
        """Whether this is recorded attention, without a model that could read, generate or be changed."""
        return self.reads == "attention"

    @property
    def fixed_heads(self) -> str:
        """Why no head can be gated or edited, in a sentence; empty if each can."""
        if self.is_recorded:
            return "This is recorded attention: only the heads of a model can be changed."
        if not self.has_gates:
            return f"{self.name} computes attention in code of its own: its heads cannot be changed."
        return ""

    @property
    def no_inside(self) -> str:
        """Why no head can be stepped through, in a sentence; empty if each can."""
        if self.is_recorded:
            return "Recorded attention has queries and keys but no values: the steps need a model"
        if not self.has_gates:
            return f"{self.name} computes attention in code of its own, of which only the weights are known"
        return ""

    @property
    def picture_words(self) -> str:
        """The size of the model's pictures, in words; empty if it reads none."""
        return f"read at {self.picture_px[1]} × {self.picture_px[0]} pixels" if self.picture_px else ""

    @property
    def takes_target(self) -> bool:
        """Whether the model reads a second text: the decoder's, or a second sentence."""
        return self.form == "encoder-decoder" or self.reads_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Source of recorded attention.

    `name` is what a user calls it, `site_names` says which module each site was, `notes` are sentences that
    belong to its numbers: rows that do not sum to 1, dropout, cells that were no numbers.
    """

    name: str
    site_names: tuple[tuple[SiteKey, str], ...] = ()
    notes: tuple[str, ...] = ()

    def site_name(self, key: SiteKey) -> str:
        """The module of a site; empty if unknown."""
        return dict(self.site_names).get(key, "")


def needs_model(name: str, what: str = "This") -> UserError:
    """The error if recorded attention is asked for what only a model can give."""
    return UserError(
        f"{what} needs a model, and {name} is recorded attention without one.",
        expected="a model that AttnScope can run",
        action="Look at its heads, measure them and draw them; for the rest open a model.",
    )


ShelfPlace = Literal["package", "cache", "partial", "away"]
"""Where a model is: in an installed package, in the local cache, there in part, or not on this computer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfEntry:
    """A model on the shelf: `name` is its owner/name on the Hub, `about_mb` the approximate download size.

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
    """A model that is not on the shelf, without known facts."""
    return ShelfEntry(name=name, title=name, kind="", look_for="", n_parameters=0, about_mb=0, licence="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfRow:
    """A model and its location; `source` opens it if it is on this computer, else it is empty.

    `n_bytes` is what lies on this computer of it. A model of the cache that is not on the shelf has an
    entry without words.
    """

    entry: ShelfEntry
    place: ShelfPlace
    source: str = ""
    n_bytes: int = 0

    @property
    def is_here(self) -> bool:
        """Whether it opens without the network."""
        return bool(self.source)


def size_words(row: ShelfRow) -> str:
    """Size of a model in words: exact if it is here, else approximate; empty if not known yet."""
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
    """The files to download, according to the server at `host`; `n_here` bytes are here already."""

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
        """Bytes left to download."""
        return self.n_bytes - self.n_here


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStep:
    """Progress of a download; `per_s` and `remaining_s` are None until known.

    With `wait_s` the next try is to be made after so many seconds, for the reason `why`.
    """

    n_done: int
    n_total: int
    per_s: float | None = None
    remaining_s: float | None = None
    wait_s: float = 0.0
    why: str = ""


def progress_words(step: FetchStep) -> str:
    """Progress in words: `120 MB of 550 MB, 4.2 MB/s, about 2 min left`."""
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
    """Ask the Hub about a download of `name`."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchModel(Request):
    """Download the offered files."""

    offer: ModelOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFetching(Request):
    """End the download; the part received is kept for next time, or deleted."""

    name: str
    keeps: bool


ShelfRequest = ShowShelf | AskModel | FetchModel | StopFetching


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfShown(Reply):
    """The models, those on this computer first; `host` would be asked for the others."""

    rows: tuple[ShelfRow, ...]
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOffered(Reply):
    """Reply to AskModel."""

    offer: ModelOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchNews(News):
    """A step of the current download."""

    name: str
    step: FetchStep

    @property
    def fraction(self) -> float:
        return self.step.n_done / max(self.step.n_total, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchEnded(Reply):
    """The download is over: complete and verified, or ended early.

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
    """The source of a model named in a file: it is not downloaded unless the user asked for it."""
    while is_download(source):
        source = source.removeprefix(DOWNLOAD_PREFIX).strip()
    return source


def typed_name(text: str) -> str:
    """The owner/name typed by a user, with or without the prefix, or copied as the address of a page."""
    name = on_this_machine(text.strip())
    _, is_address, rest = name.partition("://")
    return "/".join(re.split("[?#]", rest)[0].split("/")[1:3]) if is_address else name
