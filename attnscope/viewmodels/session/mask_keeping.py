"""A drawn mask while the text changes: kept where the lengths agree, left out and told of where they do not.

A mask that was left out is tried again with the next text, so that typing through other lengths does not
lose it. Must not import Qt.
"""

from collections.abc import Callable
from typing import Protocol

from attnscope.counting import counted
from attnscope.records.interventions import Interventions
from attnscope.records.masks import UseMask
from attnscope.records.messages import Traced
from attnscope.records.models import ModelInfo
from attnscope.viewmodels.session.history import Change, History, Setting
from attnscope.viewmodels.session.intervening import fitting, without


class Masked(Protocol):
    """What is needed of a session."""

    history: History
    model: ModelInfo | None
    text: str
    interventions: Interventions

    @property
    def setting(self) -> Setting:
        """Everything that undo brings back."""
        ...

    def tell_person(self, message: str, *, is_error: bool = False, action: str = "") -> None:
        """Show a message."""
        ...


class MaskKeeper:
    """Belongs to one session."""

    def __init__(self, session: Masked, tell: Callable[..., None]) -> None:
        self._session, self._tell = session, tell
        self._left_out: tuple[str, UseMask] | None = None

    def kept(self) -> Interventions:
        """The changes of heads that the next text begins with, the mask among them."""
        session = self._session
        sites = session.model.sites if session.model else ()
        kept = fitting(session.interventions, sites, is_same_text=False)
        mask = _mask_in(session.interventions)
        if mask is None and self._left_out is not None and self._left_out[0] == session.text:
            mask = self._left_out[1]
        is_known = mask is not None and any(mask.head in site.heads for site in sites)
        return (*kept, mask) if mask is not None and is_known else kept

    def check(self, traced: Traced) -> None:
        """A trace has come: where it left the mask out, so does the session, in the step of the text."""
        session = self._session
        mask = _mask_in(session.interventions)
        if mask is None or traced.text != session.text:
            return
        if mask.n_tokens == len(traced.source):
            self._left_out = None
            return
        before = session.setting
        is_told = self._left_out is not None and self._left_out[1] == mask
        self._left_out = (session.text, mask)
        session.interventions = without(session.interventions, mask)
        label = session.history.undo_label or "another text"
        session.history.record(Change(label=label, before=before, after=session.setting, group="text"))
        self._tell("interventions", "history")
        if not is_told:
            session.tell_person(
                f"The mask is drawn for {counted(mask.n_tokens, 'token')}, this text has "
                f"{len(traced.source)}: it is "
                "left out until the number agrees.",
                action="undo",
            )


def _mask_in(interventions: Interventions) -> UseMask | None:
    return next((change for change in interventions if isinstance(change, UseMask)), None)
