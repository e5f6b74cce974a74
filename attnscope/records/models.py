"""What the rest of the program knows of a model without holding it."""

from dataclasses import dataclass
from typing import Annotated, Literal

from attnscope.errors import UserError
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site, SiteKey

Form = Literal["encoder", "decoder", "encoder-decoder"]
SOURCE = "source"
Source = Annotated[str, SOURCE]
"""What opens a model, such as a path: files name it by its place beside them."""


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
    turned down or edited.
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
    reads: Literal["text", "picture", "recording", "attention"] = "text"
    labels: tuple[str, ...] = ()
    site_names: tuple[tuple[SiteKey, str], ...] = ()
    picture_px: tuple[int, int] | None = None
    guided: HeadRef | None = None
    words: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    writes: str = "translation"
    has_gates: bool = True

    @property
    def is_recorded(self) -> bool:
        """Whether this is recorded attention, without a model that could read, write or be changed."""
        return self.reads == "attention"

    @property
    def fixed_heads(self) -> str:
        """Why no head can be turned down or edited, in a sentence; empty where each can."""
        if self.reads == "attention":  # asked at every key: one call fewer
            return "This is recorded attention: only the heads of a model can be changed."
        if not self.has_gates:
            return f"{self.name} computes attention in code of its own: its heads cannot be changed."
        return ""

    @property
    def picture_words(self) -> str:
        """The size at which pictures are read, in words; empty where none is."""
        return f"read at {self.picture_px[1]} × {self.picture_px[0]} pixels" if self.picture_px else ""

    @property
    def takes_target(self) -> bool:
        """Whether the model reads a second text: the decoder's, or a second sentence."""
        return self.form == "encoder-decoder" or self.reads_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Where recorded attention comes from.

    `name` is what a person calls it, `site_names` says which module each site was, `notes` are sentences
    that belong to its numbers: rows that do not sum to 1, dropout, cells that were no numbers.
    """

    name: str
    site_names: tuple[tuple[SiteKey, str], ...] = ()
    notes: tuple[str, ...] = ()

    def site_name(self, key: SiteKey) -> str:
        """The module that a site was; empty where nobody said."""
        return dict(self.site_names).get(key, "")


def needs_model(name: str, what: str = "This") -> UserError:
    """The error of asking recorded attention for what only a model can give."""
    return UserError(
        f"{what} needs a model, and {name} is recorded attention without one.",
        expected="a model that AttnScope can run",
        action="Look at its heads, measure them and draw them; for the rest open a model.",
    )
