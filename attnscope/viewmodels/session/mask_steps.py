"""Undo and redo of the mask of a text, whatever else has been done in the session since.

While the last step of the session is one of the mask, it is that step which is taken back. Where other steps
have come after it, the mask goes back by a step of its own, and they stay. Must not import Qt.
"""

from dataclasses import dataclass, replace

from attnscope.records.interventions import Interventions
from attnscope.records.masks import UseMask
from attnscope.viewmodels.session.history import Change
from attnscope.viewmodels.session.state import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskStep:
    """One change of the mask; None is the model's own."""

    label: str
    before: UseMask | None
    after: UseMask | None


class MaskSteps:
    """The steps of the mask on the text that is open, with a place in them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._done: list[MaskStep] = []
        self._undone: list[MaskStep] = []
        self._seen: UseMask | None = None
        self._stroke = ""
        self.begin()

    @property
    def undo_label(self) -> str:
        """What undo would take back; empty where nothing has been done to the mask."""
        return self._done[-1].label if self._done else ""

    @property
    def redo_label(self) -> str:
        """What redo would do again, or an empty text."""
        return self._undone[-1].label if self._undone else ""

    def begin(self) -> None:
        """Another text or model is open: its steps are those that the session still knows."""
        self._undone, self._stroke, self._seen = [], "", mask_in(self._session.interventions)
        self._done = []
        for change in reversed(self._session.history.done):
            step = step_of(change)
            if {change.before.text, change.after.text} != {self._session.text}:
                break
            if step is not None:
                self._done.insert(0, step)

    def note(self, label: str, *, stroke: str = "") -> None:
        """The mask may be another now: one more step, or more of the same `stroke`."""
        before, now = self._seen, mask_in(self._session.interventions)
        if now == before:
            return
        last = self._done[-1] if self._done else None
        if last is not None and stroke and stroke == self._stroke:
            before = last.before
            self._done.pop()
        if now != before:
            self._done.append(MaskStep(label=label, before=before, after=now))
        self._undone, self._seen = [], now
        self._stroke = stroke if now != before else ""

    def follow(self) -> None:
        """The mask was changed from elsewhere: there and back is undo and redo, all else is a step."""
        now = mask_in(self._session.interventions)
        if now == self._seen:
            return
        redone = step_of(self._session.history.undoing)  # a step and its contrary both lead here
        is_redo = bool(self._undone) and redone == self._undone[-1]
        if self._done and now == self._done[-1].before and not is_redo:
            self._undone.append(self._done.pop())
        elif self._undone and now == self._undone[-1].after:
            self._done.append(self._undone.pop())
        else:
            self.note("another mask")
        self._seen, self._stroke = now, ""

    def undo(self) -> None:
        """Take back the last step of the mask."""
        if self._done:
            step = self._done.pop()
            self._undone.append(step)
            self._turn(step.before, f"undo {step.label}")

    def redo(self) -> None:
        """Make the step again that was taken back."""
        if self._undone:
            step = self._undone.pop()
            self._done.append(step)
            self._turn(step.after, f"redo {step.label}")

    def _turn(self, wanted: UseMask | None, label: str) -> None:
        """Bring a mask back, by the session's own undo or redo where that does it."""
        session, self._seen, self._stroke = self._session, wanted, ""
        back, forward = (step_of(change) for change in (session.history.undoing, session.history.redoing))
        if forward is not None and forward.after == wanted:
            session.redo()
        elif back is not None and back.before == wanted:
            session.undo()
        else:
            kept = with_mask(session.interventions, wanted)
            session.change(label, replace(session.setting, interventions=kept))


def mask_in(interventions: Interventions) -> UseMask | None:
    """The mask among some changes."""
    return next((change for change in interventions if isinstance(change, UseMask)), None)


def with_mask(interventions: Interventions, mask: UseMask | None) -> Interventions:
    """The changes with another mask, or without one."""
    others = tuple(change for change in interventions if not isinstance(change, UseMask))
    return others if mask is None else (*others, mask)


def step_of(change: Change | None) -> MaskStep | None:
    """The step of the session as one of the mask, when it changes the mask and nothing besides."""
    if change is None:
        return None
    before, after = change.before, change.after
    masks = mask_in(before.interventions), mask_in(after.interventions)
    rest = replace(before, interventions=with_mask(before.interventions, masks[1]))
    if masks[0] == masks[1] or rest != replace(after, interventions=with_mask(after.interventions, masks[1])):
        return None
    return MaskStep(label=change.label, before=masks[0], after=masks[1])
