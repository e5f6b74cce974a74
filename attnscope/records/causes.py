"""Which part of the open model made an output: what the window asks for, and what comes back.

A wished answer is a token's id, a text that is one token, or None: what the model says.
"""

from dataclasses import dataclass

from attnscope.records.attribution import Attribution, PatchKind, PatchMap
from attnscope.records.outputs import Candidate
from attnscope.records.pictures import Picture
from attnscope.records.requests import CountedNews, Reply, Request
from attnscope.records.sites import NO_GATES, Gates, Stack

WishedToken = int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeOutput(Request):
    """What every part of the open model adds to logit(answer) − logit(other). Newest wins.

    `position` counts the tokens of the stack that predicts. `other` None is the most probable token beside
    the answer.
    """

    is_view = True
    needs_model = "Adding up causes"
    position: int
    text: str
    target: str | None = None
    answer: WishedToken = None
    other: WishedToken = None
    gates: Gates = NO_GATES


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAttributed(Reply):
    """What an AttributeOutput asked for; `candidates` are the most probable tokens, or classes, there.

    `picture` is what a vision model saw, None for texts and where its tokens are no grid of patches.
    """

    attribution: Attribution
    candidates: tuple[Candidate, ...]
    picture: Picture | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchTexts(Request):
    """Put pieces of the run of one text into that of another, piece by piece, in the background.

    `position` None is where the two runs tell most clearly apart, or where the model tells a token. `stack`
    None is the one that predicts. A new request ends the one before.
    """

    needs_model = "Patching"
    clean: str
    corrupt: str
    target: str | None = None
    kind: PatchKind = "stream"
    stack: Stack | None = None
    position: int | None = None
    answer: WishedToken = None
    other: WishedToken = None
    gates: Gates = NO_GATES


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchingNews(CountedNews):
    """How many pieces of how many have been exchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsPatched(Reply):
    """What a PatchTexts asked for, and the position whose output was read."""

    patched: PatchMap
    position: int
    candidates: tuple[Candidate, ...]
