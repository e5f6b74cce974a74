"""Undo and redo of what the person did: gates, heads, texts, what is compared; with readable labels."""

from dataclasses import dataclass, replace
from typing import Annotated, Protocol

from attnscope.codec import At, Once
from attnscope.records.interventions import Interventions
from attnscope.records.models import ModelInfo
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect
from attnscope.viewmodels.session.comparing import DEFAULT_COMPARING, Comparing
from attnscope.viewmodels.session.typed_text import Typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What undo brings back."""

    gates: Gates = NO_GATES
    selection: tuple[HeadRef, ...] = ()
    aspect: Annotated[Aspect, Once({})] = PLAIN
    text: Typed = ""
    target: Typed | None = None
    interventions: Interventions = ()
    compared: Annotated[Comparing, At("compare")] = DEFAULT_COMPARING


class Settled(Protocol):
    """What has everything of a setting: a session."""

    gates: Gates
    selection: tuple[HeadRef, ...]
    aspect: Aspect
    text: str
    target: str | None
    interventions: Interventions
    compared: Comparing


def setting_of(shown: Settled) -> Setting:
    return Setting(
        gates=shown.gates,
        selection=shown.selection,
        aspect=shown.aspect,
        text=shown.text,
        target=shown.target,
        interventions=shown.interventions,
        compared=shown.compared,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of the history; steps with the same non-empty `group` in a row become one."""

    label: str
    before: Setting
    after: Setting
    group: str = ""


class History:
    """A stack of changes with a place in it; at most `n_steps` are kept."""

    def __init__(self, n_steps: int = 200) -> None:
        self._n_steps = n_steps
        self._done: list[Change] = []
        self._undone: list[Change] = []
        self._is_open = False

    def record(self, change: Change) -> None:
        """Add a change that has just been made; whatever was undone before is forgotten."""
        if change.before == change.after:
            return
        last = self._done[-1] if self._done else None
        if last and self._is_open and change.group and last.group == change.group:
            change = Change(label=change.label, before=last.before, after=change.after, group=change.group)
            self._done.pop()
        if change.before != change.after:
            self._done.append(change)
        del self._done[: -self._n_steps]
        self._undone.clear()
        self._is_open = change.before != change.after

    def reopen(self, label: str, before: Setting, now: Setting) -> None:
        """The model is open again: that is a step from how it was before, with the same heads selected."""
        self._is_open = False
        after = replace(now, selection=before.selection)
        self.record(Change(label=label, before=before, after=after, group="open"))

    def close_group(self) -> None:
        """Let the next change be a step of its own, for instance when a drag ends."""
        self._is_open = False

    def undo(self) -> Setting | None:
        """Step back; gives what to bring back, or None at the beginning."""
        if not self._done:
            return None
        change = self._done.pop()
        self._undone.append(change)
        self._is_open = False
        return change.before

    def redo(self) -> Setting | None:
        """Step forward again; gives what to bring back, or None at the end."""
        if not self._undone:
            return None
        change = self._undone.pop()
        self._done.append(change)
        self._is_open = False
        return change.after

    def go_to(self, n_steps: int) -> Setting | None:
        """Step back or forward until `n_steps` are done; gives what to bring back, None when nothing is."""
        setting = None
        n_steps = min(max(n_steps, 0), len(self._done) + len(self._undone))
        while len(self._done) != n_steps:
            setting = self.undo() if len(self._done) > n_steps else self.redo()
        return setting

    @property
    def labels(self) -> tuple[str, ...]:
        """Every step, the oldest first, with those that were undone at the end."""
        return tuple(change.label for change in (*self._done, *reversed(self._undone)))

    @property
    def done(self) -> tuple[Change, ...]:
        """The steps that are done, the oldest first."""
        return tuple(self._done)

    @property
    def n_done(self) -> int:
        """How many of the labels are done; the rest is undone."""
        return len(self._done)

    @property
    def undoing(self) -> Change | None:
        """The step that undo would take back."""
        return self._done[-1] if self._done else None

    @property
    def redoing(self) -> Change | None:
        """The step that redo would do again."""
        return self._undone[-1] if self._undone else None

    @property
    def undo_label(self) -> str:
        """What undo would take back, or an empty text."""
        return self._done[-1].label if self._done else ""

    @property
    def redo_label(self) -> str:
        """What redo would do again, or an empty text."""
        return self._undone[-1].label if self._undone else ""


class Histories:
    """One history for each model, by its source and the hash of its weights; the latest models' are kept."""

    def __init__(self, n_models: int = 16) -> None:
        self._n_models = n_models
        self._kept: dict[tuple[str, str], History] = {}
        self._left: dict[tuple[str, str], Setting] = {}

    def of(self, model: ModelInfo) -> History:
        """The history of a model: the one it had when it was open before, else a new one."""
        key = _key_of(model)
        history = self._kept.pop(key, None) or History()
        self._kept[key] = history
        for old in [*self._kept][: -self._n_models]:
            del self._kept[old]
            self._left.pop(old, None)
        return history

    def leave(self, model: ModelInfo, setting: Setting) -> None:
        """A model is closed, with this setting."""
        self._left[_key_of(model)] = setting

    def left(self, model: ModelInfo, now: Setting) -> Setting:
        """The setting that a model was closed with; `now` where it never was."""
        return self._left.pop(_key_of(model), now)


def _key_of(model: ModelInfo) -> tuple[str, str]:
    return model.source, model.sha256
