"""Generating with the model: settings, the text so far, the selected token, the beam tree.

Widgets read the attributes, call the intents and connect to what `changed`.
"""

from dataclasses import replace
from typing import Literal

from psygnal import Signal, SignalGroup

from attnscope.errors import UserError
from attnscope.records.messages import Failed, Traced
from attnscope.records.outputs import (
    WRITTEN_TRACE,
    BeamTree,
    Candidate,
    TextWritten,
    WriteMode,
    WriteSettings,
    WriteText,
    WritingNews,
    WrittenText,
    WrittenToken,
)
from attnscope.records.requests import Reply
from attnscope.records.sites import NO_GATES, Stack
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.state import Session

Phase = Literal["empty", "writing", "written", "stopped", "failed"]


class GenerationChanges(SignalGroup):
    """Signals of GenerationState."""

    settings = Signal()
    writing = Signal()
    """It begins, goes on or ends."""
    step = Signal()
    """Another token is looked at."""
    outdated = Signal()


class GenerationState:
    """Text that the open model generates after the session's. One at a time."""

    settings: WriteSettings = WriteSettings()
    phase: Phase = "empty"
    tokens: tuple[WrittenToken, ...] = ()
    written: WrittenText | None = None
    n_most: int = 0
    step: int | None = None
    error: str = ""

    def __init__(
        self,
        session: Session,
        requests: Requests,
    ) -> None:
        self._session, self._requests = session, requests
        self.changed = GenerationChanges()
        self._number = 0
        self._whole = ""
        self._traced: Traced | None = None
        self._own_traced: Traced | None = None
        self._written_for = ("", NO_GATES)
        session.changed.model.connect(self._on_model, max_args=0)
        session.changed.text.connect(self._on_text_or_gates, max_args=0)
        session.changed.gates.connect(self._on_text_or_gates, max_args=0)
        session.changed.traced.connect(self._on_traced, max_args=0)

    # What can be read

    @property
    def can_write(self) -> bool:
        """Whether the open model generates text, and there is one to continue."""
        model = self._session.model
        writes = model is not None and model.form != "encoder" and not model.is_recorded
        return writes and bool(self._session.text.strip())

    @property
    def is_writing(self) -> bool:
        """Whether tokens are pending."""
        return self.phase == "writing"

    @property
    def is_outdated(self) -> bool:
        """Whether text or gates have changed since it was generated; using it as the text changes nothing."""
        text, gates = self._written_for
        is_other = self._session.gates != gates or self._session.text not in (text, self._whole)
        return is_other and (self.phase == "writing" or bool(self.tokens))

    @property
    def is_shown(self) -> bool:
        """Whether the maps of the page are those of the generated text."""
        shown, own = self._session.traced, self._traced
        if shown is None or own is None:
            return False
        return shown is own or (_ids(shown) == _ids(own) and shown.gates == own.gates)

    @property
    def tree(self) -> BeamTree | None:
        """The beams considered."""
        return self.written.tree if self.written else None

    @property
    def chosen(self) -> WrittenToken | None:
        """The selected token."""
        return self.tokens[self.step] if self.step is not None and self.step < len(self.tokens) else None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Candidates for a generated token, always including the chosen one."""
        chosen = self.chosen
        if chosen is None:
            return ()
        is_drawn = any(candidate.chance is not None for candidate in chosen.alternatives)
        own = Candidate(
            token=chosen.token,
            probability=chosen.probability,
            chance=chosen.chance if is_drawn else None,
        )
        is_there = any(candidate.token.id == own.token.id for candidate in chosen.alternatives)
        return chosen.alternatives if is_there else (*chosen.alternatives[:-1], own)

    def row(self, stack: Stack | None) -> int | None:
        """The row of a map of `stack` that generated the chosen token; None if it has none."""
        chosen = self.chosen
        return chosen.position if chosen and self.is_shown and stack not in (None, "encoder") else None

    # Intents

    def set_mode(self, mode: WriteMode) -> None:
        """Choose tokens by another method."""
        self.set_settings(replace(self.settings, mode=mode))

    def set_settings(self, settings: WriteSettings) -> None:
        """Use these settings from the next time on."""
        if settings != self.settings:
            self.settings = settings
            self.changed.settings.emit()

    def write(self) -> None:
        """Generate after the text, with the current gates."""
        if not self.can_write:
            return
        self.stop()
        try:
            self.settings.check()
        except UserError as error:
            self._fail(str(error))
            return
        self._show_own()
        session = self._session
        self.phase, self.error = "writing", ""
        self.tokens, self.written, self.step, self._traced = (), None, None, None
        self.n_most, self._whole = self.settings.max_tokens, ""
        self._written_for = (session.text, session.gates)
        self._number = self._requests.send(
            WriteText(
                text=session.text,
                settings=self.settings,
                gates=session.gates,
                heads=session.selection,
            )
        )
        self.changed.writing.emit()
        self.changed.step.emit()

    def stop(self) -> None:
        """Stop generating; the text so far stays."""
        if self.is_writing:
            self._requests.cancel(self._number)
            self._number, self.phase = 0, "stopped"
            self.changed.writing.emit()

    def choose_step(self, step: int | None) -> None:
        """Select another generated token: the page then shows the maps of the generated text.

        None goes back to the maps of the text itself.
        """
        if step is not None:
            step = min(max(step, 0), len(self.tokens) - 1)
            if step < 0:
                return
        if step is None:
            self._show_own()
        elif self._traced is not None and not self.is_outdated and not self.is_shown:
            self._own_traced = self._session.traced
            self._session.tracing.show(self._traced)
        if step != self.step:
            self.step = step
            self.changed.step.emit()

    def use_as_text(self) -> None:
        """Make the generated text part of the text; for a translation model, the target."""
        if not self._whole:
            return
        if self._session.model and self._session.model.takes_target:
            self._session.texts.set_target(self._whole)
        else:
            self._session.texts.set_text(self._whole)

    @property
    def can_be_used(self) -> bool:
        """Whether there is a text to use."""
        return bool(self._whole) and not self.is_writing

    # Replies

    def handle(self, reply: Reply) -> None:
        """Handle a reply; those for other parts of the window are ignored."""
        if not self._number or getattr(reply, "number", 0) != self._number:
            return
        match reply:
            case WritingNews():
                self.tokens, self._whole, self.n_most = reply.tokens, reply.whole, reply.n_most
                self.changed.writing.emit()
            case Traced() if reply.model == WRITTEN_TRACE:
                self._traced = reply
            case TextWritten():
                self.written, self.tokens, self._whole = (
                    reply.written,
                    reply.written.tokens,
                    reply.written.whole,
                )
                self.phase, self._number = "written", 0
                self.changed.writing.emit()
            case Failed():
                self._number = 0
                self._fail(reply.message)
            case _:
                pass

    # Inside

    def _fail(self, message: str) -> None:
        self.phase, self.error = "failed", message
        self.changed.writing.emit()

    def _show_own(self) -> None:
        """Return to the maps of the text, if they are still current."""
        is_ours = self._session.traced is self._traced and self._traced is not None
        if is_ours and self._own_traced is not None and not self.is_outdated:
            self._session.tracing.show(self._own_traced)
        self._own_traced = None

    def _on_model(self) -> None:
        self.stop()
        self.phase, self.error, self._number, self._whole = "empty", "", 0, ""
        self.tokens, self.written, self.step, self._traced = (), None, None, None
        self._own_traced = None
        self.changed.writing.emit()
        self.changed.step.emit()

    def _on_text_or_gates(self) -> None:
        if self.is_outdated:
            self.stop()
        self.changed.outdated.emit()

    def _on_traced(self) -> None:
        """React to another trace: the highlighted row comes or goes."""
        if self.step is not None:
            self.changed.step.emit()


def _ids(traced: Traced) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return traced.source.ids, traced.target.ids if traced.target else ()
