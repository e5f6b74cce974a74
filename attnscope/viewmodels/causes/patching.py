"""The state of patching: two texts, what is exchanged between their runs, and how far that brings the output.

Must not import Qt.
"""

from collections.abc import Callable

from psygnal import Signal, SignalGroup

from attnscope.counting import number_text
from attnscope.records.causes import PatchingNews, PatchMap, PatchTexts, TextsPatched, WishedToken
from attnscope.records.messages import ModelLoaded
from attnscope.records.outputs import Candidate
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.records.tokens import Token
from attnscope.viewmodels.causes.across_layers import AcrossState
from attnscope.viewmodels.causes.attributing import clean_wish, refusal_of
from attnscope.viewmodels.causes.patch_words import What, counterpart, end_of_change, patch_sentence
from attnscope.viewmodels.query import Job, Requests
from attnscope.viewmodels.session.state import Session

_SAME = "Replace a word of the second text by another with the same number of tokens."
_OTHER_PICTURE = "Type the path of another picture above."
_NEW = "The text, its gates or the choices have changed. Press Patch again."


class PatchingChanges(SignalGroup):
    """What of it can change."""

    choice = Signal()
    progress = Signal()
    map = Signal()
    selection = Signal()


class Exchange:
    """What is exchanged between the two runs: a head, or the stream of a stack. `again` asks anew."""

    def __init__(self, session: Session, again: Callable[[], None]) -> None:
        self._session, self._again = session, again
        self._chosen: What = "head"
        self._is_chosen = False

    @property
    def whats(self) -> tuple[What, ...]:
        """What can be exchanged between two runs of the open model."""
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
        """What is exchanged: as chosen, or the first that there is."""
        return self._chosen if self._is_chosen and self._chosen in self.whats else self.whats[0]

    def choose(self, what: str) -> None:
        """Exchange something else; a map that is shown is made anew."""
        chosen = next((known for known in self.whats if known == what), self.what)
        if chosen != self.what:
            self._chosen, self._is_chosen = chosen, True
            self._again()

    def forget(self) -> None:
        """Another model is open: nothing is chosen."""
        self._is_chosen = False


class FoundPatches:
    """The map that was made last, in cells and in words."""

    def __init__(self, session: Session, across: AcrossState, job: Job[PatchingNews, TextsPatched]) -> None:
        self._session, self._across, self._job = session, across, job

    @property
    def shown(self) -> TextsPatched | None:
        """What the worker has answered, unless a later pass failed."""
        return self._job.answer if self._job.phase != "failed" else None

    @property
    def patched(self) -> PatchMap | None:
        """How far each exchange brings the output, when it is known."""
        shown = self.shown
        return shown.patched if shown is not None else None

    @property
    def statement(self) -> str:
        """What the runs say, and which token is looked at."""
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
        """The map in words, for a caption; `corrupt` is the text that was patched into."""
        return f"Patched into “{corrupt.strip()}”; {self.statement}"

    def side_of(self, row: int) -> str:
        """Whose positions the columns are: `source` or `target`; empty in a map of heads."""
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
        """Select the head of a cell, if it is one of a head."""
        found = self.patched
        head = found.head_at(row, column) if found is not None else None
        if head is not None:
            self._session.select_heads((head,))
        return head


def output_words(across: AcrossState, position: int) -> str:
    """Where an output is read, with its token: after “the”."""
    word = "at" if across.heading.startswith("output at") else "after"
    tokens = across.tokens if across.whole_at is None else ()
    return f"{word} “{tokens[position].piece if position < len(tokens) else position}”"


class PatchingState:
    """One map at most is under way; it is for the text, answers and gates it was asked with."""

    automatic = ("the first text's prediction", "the second's prediction")
    """What an answer stands for that nobody has chosen."""
    refusal_title = "This model cannot be patched"
    """What the `reason` is a reason against."""

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
        """What could be compared instead."""
        shown = self.found.shown
        return shown.candidates if shown is not None else ()

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The output tokens that can be read; none where there is one class of the whole input."""
        return self._across.tokens if self._across.whole_at is None else ()

    @property
    def position(self) -> int:
        """The output token that is read: as chosen, or where the runs were found to differ; −1: not yet."""
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
        """Where the first exchanged word of the second text ends, in characters; 0 when none is."""
        return end_of_change(self._session.text.strip(), self.corrupt)

    @property
    def heading(self) -> str:
        """Which output is read."""
        if self._across.whole_at is not None:
            return self._across.whole_words
        if self.position < 0:
            return "output where the two texts differ most"
        return f"output {output_words(self._across, self.position)}" if self.tokens else ""

    @property
    def compared(self) -> tuple[Token | None, Token | None]:
        """The two tokens whose logits are compared, None while that is unknown."""
        found = self.found.patched
        return (found.answer, found.other) if found is not None else (None, None)

    @property
    def is_runnable(self) -> bool:
        """Whether there are two texts, and no map under way."""
        traced = self._session.traced
        is_open = traced is not None and traced.is_whole and not self.reason
        corrupt = self.corrupt.strip()
        return is_open and bool(corrupt) and corrupt != self._session.text.strip() and not self.job.is_running

    @property
    def progress(self) -> str:
        """How much is done, in words."""
        news = self.job.news
        return f"{news.n_done:,} of {news.n_total:,} patches" if news is not None and news.n_total else ""

    @property
    def reason(self) -> str:
        """Why the open model cannot be patched, whatever the texts are."""
        return refusal_of(self._session.model)

    @property
    def note(self) -> str:
        """What to do, what is happening or what went wrong, while there is no map."""
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
        """Read another output token; a map that is shown is made anew."""
        if 0 <= position < len(self.tokens) and position != self._position:
            self._position, self.answer, self.other = position, None, None
            self._again()

    def choose_answers(self, answer: WishedToken, other: WishedToken) -> None:
        """Compare other tokens; None is what the first run says, and the second. A map is made anew."""
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
        """Give the map up."""
        if self.job.stop():
            self.changed.progress.emit()

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those that come too late change nothing."""
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
        """Whether the worker chooses the output token: texts with a target differ at a place unknown here."""
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
        """For a new text: its counterpart among the samples, or the text itself to be changed."""
        session = self._session
        if session.text != self._for_text:
            self._for_text, self._position = session.text, None
            self.answer = self.other = None
            samples = session.model.samples if session.model is not None else ()
            self.corrupt = counterpart(session.text, samples) or session.text.strip()
            self._outdate()

    def _outdate(self) -> None:
        """What was asked holds no more."""
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
