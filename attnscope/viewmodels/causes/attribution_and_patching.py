"""The causes of an output: parts that add up, and patching between two texts."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from psygnal import Signal, SignalGroup

from attnscope.counting import number_text, percent
from attnscope.records.causes import (
    AttributeOutput,
    Attribution,
    Contribution,
    OutputAttributed,
    PatchingNews,
    PatchMap,
    PatchTexts,
    TextsPatched,
    WishedToken,
)
from attnscope.records.maps import Picture
from attnscope.records.messages import ModelLoaded
from attnscope.records.models import ModelInfo, Sample
from attnscope.records.outputs import Candidate
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.records.tokens import Token
from attnscope.viewmodels.causes.across_layers import AcrossState
from attnscope.viewmodels.query import Job, Query, Requests
from attnscope.viewmodels.session.state import Session

PartOrder = Literal["size", "model"]
PART_ORDERS: dict[str, str] = {"size": "by size", "model": "by layer"}


class AttributingChanges(SignalGroup):
    """Signals of AttributingState."""

    choice = Signal()
    order = Signal()
    parts = Signal()


class AttributingState:
    """The output token is that of `across`; the answers apply to it alone."""

    automatic = ("its prediction", "its runner-up")
    """Meaning of an unchosen answer."""
    refusal_title = "No attribution for this model"
    """The analysis ruled out by the `reason`."""

    def __init__(
        self,
        session: Session,
        across: AcrossState,
        requests: Requests,
    ) -> None:
        self._session, self._across = session, across
        self._query = Query(OutputAttributed, requests)
        self.changed = AttributingChanges()
        self.answer: WishedToken = None
        self.other: WishedToken = None
        self.order: PartOrder = "size"
        self.candidates: tuple[Candidate, ...] = ()
        session.changed.model.connect(self._on_model, max_args=0)
        session.changed.text.connect(self._forget_answers, max_args=0)
        session.changed.traced.connect(self._ask, max_args=0)
        across.changed.choice.connect(self._on_position, max_args=0)

    # What can be read

    @property
    def found(self) -> Attribution | None:
        """The parts, once known."""
        return self._query.answer.attribution if self._query.answer is not None else None

    @property
    def picture(self) -> Picture | None:
        """The picture beneath the parts, if the model reads one."""
        return self._query.answer.picture if self._query.answer is not None else None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The output tokens to choose from; none if the whole input has one class."""
        return self._across.tokens if self._across.whole_at is None else ()

    @property
    def position(self) -> int:
        """The output token whose parts are shown."""
        return self._across.position if self._across.whole_at is None else self._across.whole_at

    @property
    def heading(self) -> str:
        """The output explained."""
        return self._across.heading if self._across.whole_at is None else self._across.whole_words

    @property
    def compared(self) -> tuple[Token | None, Token | None]:
        """The two tokens whose logits are compared, None while unknown."""
        found = self.found
        return (found.answer, found.other) if found is not None else (None, None)

    @property
    def selected(self) -> tuple[HeadRef, ...]:
        return self._session.selection

    @property
    def parts(self) -> tuple[Contribution, ...]:
        """The parts in the chosen order."""
        if self.found is None:
            return ()
        parts = self.found.contributions
        return parts if self.order == "model" else tuple(sorted(parts, key=lambda one: -abs(one.value)))

    @property
    def reason(self) -> str:
        """Why there can be no parts; empty if there are some, or may be."""
        return refusal_of(self._session.model) or self._query.error

    @property
    def note(self) -> str:
        """Status while there are no parts, or a note on parts left out."""
        session = self._session
        if self.reason:
            return ""
        if not session.text.strip():
            is_picture = session.model is not None and session.model.reads == "picture"
            what = "Type the path of a picture" if is_picture else "Enter a text"
            return f"{what} to see which parts of the model made an output."
        if self.found is None:
            return "Adding up the parts…"
        changes = "Changes inside heads are ignored; gates count." if session.interventions else ""
        return " ".join(part for part in (changes, self.found.note) if part)

    @property
    def statement(self) -> str:
        """The difference that is attributed."""
        found = self.found
        if found is None:
            return ""
        return f"logit({found.answer.piece}) − logit({found.other.piece}) = {number_text(found.difference)}"

    @property
    def sum_words(self) -> str:
        """Sum of all parts, in words."""
        found = self.found
        return f"{len(found.contributions)} parts: {number_text(found.total)}" if found is not None else ""

    def gate(self, head: HeadRef) -> float:
        return self._session.gates.value(head)

    # Intents

    def watch(self, is_watched: bool) -> None:
        """Note whether the parts are visible."""
        self._query.is_watched = is_watched
        self._ask()

    def choose_position(self, position: int) -> None:
        """Explain another output token, here and in the panel across layers."""
        self._across.choose(position)

    def choose_answers(self, answer: WishedToken, other: WishedToken) -> None:
        """Compare other tokens; None is the model's own choice."""
        wished = (clean_wish(answer), clean_wish(other))
        if wished != (self.answer, self.other):
            self.answer, self.other = wished
            self.changed.choice.emit()
            self._ask()

    def choose_order(self, order: str) -> None:
        """Sort the parts."""
        if order in PART_ORDERS and order != self.order:
            self.order = "model" if order == "model" else "size"
            self.changed.order.emit()

    def select(self, head: HeadRef, *, is_added: bool = False) -> None:
        """Select a head for the whole window."""
        self._session.select_heads((head,), is_added)

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
        if self._query.take(reply):
            if self._query.answer is not None:
                self.candidates = self._query.answer.candidates
            self.changed.parts.emit()

    # Inside

    def _on_model(self) -> None:
        self._forget_answers()
        self._query.forget()
        self.candidates = ()
        self.changed.parts.emit()
        self._ask()

    def _forget_answers(self) -> None:
        self.answer = self.other = None

    def _on_position(self) -> None:
        found = self.found
        if found is not None and found.position != self.position:
            self._forget_answers()
        self.changed.choice.emit()
        self._ask()

    def _ask(self) -> None:
        """Request the current text, unless that was done already."""
        session = self._session
        traced = session.tracing.settled if self._query.is_watched and not refusal_of(session.model) else None
        if traced is None or not self._across.tokens:
            return
        request = AttributeOutput(
            position=self.position,
            text=session.text,
            target=session.target or traced.target_text,
            answer=self.answer,
            other=self.other,
            gates=traced.gates,
        )
        about = (traced.number, self.position, self.answer, self.other)
        self._query.ask(about, request)


def refusal_of(model: ModelInfo | None) -> str:
    """Why a model's outputs cannot be attributed; empty if it can be tried, and without a model."""
    if model is None:
        return ""
    if model.is_recorded:
        return "This is recorded attention: it has no output to attribute."
    if model.body:
        return f"The model is recurrent ({model.body}): it has no stream that layers add to."
    if model.labels:
        return f"{model.name} predicts labels of whole texts, not tokens that could be compared."
    if model.architecture and (model.objective == "representations" or model.reads == "recording"):
        if model.reads == "picture":
            return f"{model.name} has no output layer: it predicts no classes that could be compared."
        if model.reads == "recording":
            return f"{model.name} reads recordings, whose parts cannot be separated here."
        return f"{model.name} predicts no tokens of a text that could be compared."
    return ""


def part_words(part: Contribution, total: float) -> str:
    """One part in words: its contribution, and its share of the whole difference."""
    share = f", {percent(part.value / total, 1)} of the difference" if total else ""
    is_named = part.kind != "head" or part.label.startswith(f"{part.stack} ")
    kind = part.label if is_named else f"{part.stack} {part.label}"
    return f"{kind}: {number_text(part.value)} logits{share}"


def clean_wish(wish: WishedToken) -> WishedToken:
    """A requested token, None if nothing was typed."""
    return (wish or None) if isinstance(wish, str) else wish


What = Literal["encoder", "decoder", "head"]
"""The stream of a stack, position by position, or the outputs of heads."""
WHAT_TIPS: dict[What, str] = {
    "encoder": "What enters each layer of the encoder, at one position: a map of layers and positions.",
    "decoder": "What enters each layer of the decoder, at one position: a map of layers and positions.",
    "head": "What a head gives, at every position: a map of layers and heads.",
}
WHAT_NAMES: dict[What, str] = {
    "encoder": "encoder positions",
    "decoder": "decoder positions",
    "head": "heads",
}


def patch_sentence(found: PatchMap, row: int, column: int) -> str:
    """One cell in words; for a row of −1 the largest one, empty if all are missing."""
    if np.isnan(found.patched).all():
        return ""
    is_largest = row < 0
    if is_largest:
        row, column = divmod(int(np.nanargmax(np.abs(found.patched))), len(found.columns))
    value = float(found.patched[row, column])
    if value != value:
        return f"{found.rows[row]} has no head {column}."
    name, layer = found.rows[row].split()
    where = (
        f"{name} L{layer}H{column}"
        if found.kind == "head"
        else f"what enters {name} layer {layer} at “{found.columns[column]}”"
    )
    says = f"{where} restores {number_text(100 * value)} % of the difference."
    return f"Strongest: {says}" if is_largest else says[:1].upper() + says[1:]


def end_of_change(first: str, second: str) -> int:
    """End of the first exchanged word in the second text, in characters; 0 if none is."""
    same = next((k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    if same is None:
        return 0
    blank = second.find(" ", same)
    return blank if blank >= 0 else len(second)


def counterpart(text: str, samples: Sequence[Sample]) -> str:
    """The sample that differs from a text in one word; empty if there is none."""
    words = text.split()
    for sample in samples:
        others = sample.text.split()
        if len(others) == len(words) and sum(a != b for a, b in zip(words, others, strict=True)) == 1:
            return sample.text.strip()
    return ""


_SAME = "Replace a word of the second text by another with the same number of tokens."
_OTHER_PICTURE = "Type the path of another picture above."
_NEW = "The text, its gates or the choices have changed. Press Patch again."


class PatchingChanges(SignalGroup):
    """Signals of PatchingState."""

    choice = Signal()
    progress = Signal()
    map = Signal()
    selection = Signal()


class Exchange:
    """The exchange between the two runs: a head, or the stream of a stack. `again` asks anew."""

    def __init__(self, session: Session, again: Callable[[], None]) -> None:
        self._session, self._again = session, again
        self._chosen: What = "head"
        self._is_chosen = False

    @property
    def whats(self) -> tuple[What, ...]:
        """Parts that can be exchanged between two runs of the open model."""
        stacks = self._session.stacks
        streams: tuple[What, ...] = tuple(what for what in ("encoder", "decoder") if what in stacks)
        return ("head", *streams) if self.reads_pictures else (*streams, "head")

    @property
    def reads_pictures(self) -> bool:
        """Whether the two texts are paths of pictures."""
        model = self._session.model
        return model is not None and model.reads == "picture"

    @property
    def what(self) -> What:
        """The part exchanged: as chosen, or the first available."""
        return self._chosen if self._is_chosen and self._chosen in self.whats else self.whats[0]

    def choose(self, what: str) -> None:
        """Exchange something else; a current map is made anew."""
        chosen = next((known for known in self.whats if known == what), self.what)
        if chosen != self.what:
            self._chosen, self._is_chosen = chosen, True
            self._again()

    def forget(self) -> None:
        """Reset the choices for another model."""
        self._is_chosen = False


class FoundPatches:
    """The last map, in cells and in words."""

    def __init__(self, session: Session, across: AcrossState, job: Job[PatchingNews, TextsPatched]) -> None:
        self._session, self._across, self._job = session, across, job

    @property
    def shown(self) -> TextsPatched | None:
        """The worker's answer, unless a later pass failed."""
        return self._job.answer if self._job.phase != "failed" else None

    @property
    def patched(self) -> PatchMap | None:
        """Effect of each exchange on the output, once known."""
        shown = self.shown
        return shown.patched if shown is not None else None

    @property
    def statement(self) -> str:
        """The outputs of the runs, and the token examined."""
        shown = self.shown
        if shown is None:
            return ""
        found = shown.patched
        where = f" {output_words(self._across, shown.position)}" if self._across.whole_at is None else ""
        return (
            f"{found.answer.piece} − {found.other.piece}{where}:"
            f" {number_text(found.clean_difference)} → {number_text(found.corrupt_difference)} logits"
        )

    def about(self, corrupt: str) -> str:
        """The map in words, for a caption; `corrupt` is the text that was patched."""
        return f"Patched into “{corrupt.strip()}”; {self.statement}"

    def side_of(self, row: int) -> str:
        """The side whose positions are the columns: `source` or `target`; empty in a map of heads."""
        found = self.patched
        if found is None or found.kind == "head":
            return ""
        is_target = found.rows[row].startswith("decoder") and "encoder" in self._session.stacks
        return "target" if is_target else "source"

    @property
    def selected_cell(self) -> tuple[int, int]:
        """The cell of the head that the session has selected last."""
        found = self.patched
        return found.cell_of(self._session.primary) if found is not None else (-1, -1)

    def sentence(self, row: int, column: int) -> str:
        """One cell in words; without a cell (−1) the largest one."""
        found = self.patched
        return patch_sentence(found, row, column) if found is not None else ""

    def select(self, row: int, column: int) -> HeadRef | None:
        found = self.patched
        head = found.head_at(row, column) if found is not None else None
        if head is not None:
            self._session.select_heads((head,))
        return head


def output_words(across: AcrossState, position: int) -> str:
    """Position at which an output is read, with its token: after “the”."""
    word = "at" if across.heading.startswith("output at") else "after"
    tokens = across.tokens if across.whole_at is None else ()
    return f"{word} “{tokens[position].piece if position < len(tokens) else position}”"


class PatchingState:
    """At most one map at a time; it belongs to the text, answers and gates with which it was requested."""

    automatic = ("the first text's prediction", "the second's prediction")
    """Meaning of an unchosen answer."""
    refusal_title = "This model cannot be patched"
    """The analysis ruled out by the `reason`."""

    def __init__(
        self,
        session: Session,
        across: AcrossState,
        requests: Requests,
    ) -> None:
        self._session, self._across = session, across
        self.job = Job(PatchingNews, TextsPatched, requests)
        self.found = FoundPatches(session, across, self.job)
        self.exchange = Exchange(session, self._again)
        self.changed = PatchingChanges()
        self.corrupt = ""
        self._position: int | None = None
        self.answer: WishedToken = None
        self.other: WishedToken = None
        self._is_outdated = False
        self._for_text = ""
        session.changed.model.connect(self._on_model_or_trace, max_args=0)
        session.changed.traced.connect(self._on_model_or_trace, max_args=0)
        session.changed.text.connect(self._propose, max_args=0)
        session.changed.gates.connect(self._on_gates, max_args=0)
        session.changed.selection.connect(self._on_selection, max_args=0)
        self._propose()

    # What can be read

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Tokens available for the comparison."""
        shown = self.found.shown
        return shown.candidates if shown is not None else ()

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The output tokens to choose from; none if the whole input has one class."""
        return self._across.tokens if self._across.whole_at is None else ()

    @property
    def position(self) -> int:
        """The output token read: as chosen, or where the runs differ; −1: not yet known."""
        if self._across.whole_at is not None:
            return self._across.whole_at
        if self._position is not None:
            return self._position
        shown = self.found.shown
        if shown is not None:
            return shown.position
        return -1 if self._is_searching else self._across.position

    @property
    def change_end(self) -> int:
        """End of the first exchanged word in the second text, in characters; 0 if none is."""
        return end_of_change(self._session.text.strip(), self.corrupt)

    @property
    def heading(self) -> str:
        """The output read."""
        if self._across.whole_at is not None:
            return self._across.whole_words
        if self.position < 0:
            return "output where the two texts differ most"
        return f"output {output_words(self._across, self.position)}" if self.tokens else ""

    @property
    def compared(self) -> tuple[Token | None, Token | None]:
        """The two tokens whose logits are compared, None while unknown."""
        found = self.found.patched
        return (found.answer, found.other) if found is not None else (None, None)

    @property
    def is_runnable(self) -> bool:
        """Whether there are two texts, and no map in progress."""
        traced = self._session.traced
        is_open = traced is not None and traced.is_whole and not self.reason
        corrupt = self.corrupt.strip()
        return is_open and bool(corrupt) and corrupt != self._session.text.strip() and not self.job.is_running

    @property
    def progress(self) -> str:
        """Progress, in words."""
        news = self.job.news
        return f"{news.n_done:,} of {news.n_total:,} patches" if news is not None and news.n_total else ""

    @property
    def reason(self) -> str:
        """Why the open model cannot be patched, whatever the texts are."""
        return refusal_of(self._session.model)

    @property
    def note(self) -> str:
        """Next step, status or error, while there is no map."""
        if self.job.error:
            return self.job.error
        if self._session.traced is None or not self._session.text.strip():
            return (
                "Type the path of a picture first." if self.exchange.reads_pictures else "Enter a text first."
            )
        if self.job.is_running:
            return self.progress or "Waiting…"
        if self.job.phase == "stopped":
            return "Cancelled. Press Patch to start again."
        if self._is_outdated and self.is_runnable:
            return _NEW
        if self.corrupt.strip() == self._session.text.strip():
            return _OTHER_PICTURE if self.exchange.reads_pictures else _SAME
        if self.exchange.reads_pictures:
            return "Pieces of the first picture's run are put into that of this second one. Press Patch."
        where = " and the output is read where the two differ most" if self._is_searching else ""
        return (
            f"Pieces of the first text's run are put into that of this second text, one at a time{where}."
            " Press Patch."
        )

    # Intents

    def set_corrupt(self, text: str) -> None:
        """Compare with another second text."""
        if text != self.corrupt:
            self.corrupt = text
            self._outdate()

    def choose_position(self, position: int) -> None:
        """Read another output token; a current map is made anew."""
        if 0 <= position < len(self.tokens) and position != self._position:
            self._position, self.answer, self.other = position, None, None
            self._again()

    def choose_answers(self, answer: WishedToken, other: WishedToken) -> None:
        """Compare other tokens; None is the output of the first run, and of the second."""
        wished = (clean_wish(answer), clean_wish(other))
        if wished != (self.answer, self.other):
            self.answer, self.other = wished
            self._again()

    def run(self) -> None:
        """Begin a map."""
        session, traced = self._session, self._session.traced
        if traced is None or not self.is_runnable:
            return
        what = self.exchange.what
        self.job.start(
            PatchTexts(
                clean=session.text,
                corrupt=self.corrupt.strip(),
                target=session.target or traced.target_text,
                kind="head" if what == "head" else "stream",
                stack=None if what == "head" else what,
                position=self._position,
                answer=self.answer,
                other=self.other,
                gates=traced.gates,
            )
        )
        self.changed.progress.emit()

    def stop(self) -> None:
        """Cancel the map."""
        if self.job.stop():
            self.changed.progress.emit()

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
        if isinstance(reply, ModelLoaded):
            self.stop()
            self.exchange.forget()
        elif self.job.take(reply):
            if not self.job.is_running:
                self._is_outdated = self._is_outdated and self.job.phase != "done"
                self.changed.map.emit()
            self.changed.progress.emit()

    # Inside

    @property
    def _has_asked(self) -> bool:
        return self.found.shown is not None or bool(self.job.error) or self.job.is_running

    @property
    def _is_searching(self) -> bool:
        """Whether the worker chooses the output token, as for texts with a target."""
        return self._position is None and {"encoder", "decoder"} <= {*self.exchange.whats}

    def _on_model_or_trace(self) -> None:
        self._propose()
        if self._has_asked:
            self._outdate()
        else:
            self.changed.choice.emit()

    def _on_gates(self) -> None:
        if self._has_asked:
            self._outdate()

    def _on_selection(self) -> None:
        self.changed.selection.emit()

    def _propose(self) -> None:
        """Suggest a second text: the counterpart among the samples, or the text itself for editing."""
        session = self._session
        if session.text != self._for_text:
            self._for_text, self._position = session.text, None
            self.answer = self.other = None
            samples = session.model.samples if session.model is not None else ()
            self.corrupt = counterpart(session.text, samples) or session.text.strip()
            self._outdate()

    def _outdate(self) -> None:
        """Mark the last answer as out of date."""
        has_asked = self._has_asked
        self._is_outdated = self._is_outdated or self.found.shown is not None
        self.job.forget()
        if has_asked:
            self.changed.map.emit()
            self.changed.progress.emit()
        self.changed.choice.emit()

    def _again(self) -> None:
        was_shown = self.found.shown is not None or self.job.is_running
        self._outdate()
        if was_shown:
            self.run()
