"""Kept views: a list of named views and the notes beside them, saved with the session.

Each view holds what a session file holds of one moment: model, texts, heads, gates, changes, what is
compared, and how it is shown. Must not import Qt.
"""

from collections.abc import Callable
from dataclasses import replace

from psygnal import Signal, SignalGroup

from attnscope.viewmodels.session.file import MAX_NOTES, MAX_VIEW_NAME, MAX_VIEWS, KeptView, SavedSession
from attnscope.viewmodels.undo_stack import UndoStack

Views = tuple[KeptView, ...]
_VIEWS = {"lines": "Lines", "picture": "Picture", "inside": "Step by step"}
"""How the views of Explore begin the name of a view; the map does not."""
_TABS = {"Alike": "Similar heads", "Inside": "Gradients and updates"}
"""Tabs that are labelled otherwise than files name them."""


class KeptChanges(SignalGroup):
    """What of the kept views can change."""

    views = Signal()
    at = Signal()
    """Another one is shown."""
    notes = Signal()
    going = Signal()
    """A view or another session is about to be shown."""


class KeptViews:
    """The list and the place in it.

    `take` gives what is shown now, None while there is nothing to show; `show` brings it back; `fits` says
    whether so much can be saved in one file.
    """

    def __init__(
        self,
        take: Callable[[], SavedSession | None],
        show: Callable[[SavedSession, str], None],
        fits: Callable[[Views], bool],
    ) -> None:
        self._take, self._show, self._fits = take, show, fits
        self.changed = KeptChanges()
        self._past: UndoStack[Views] = UndoStack()
        self.views: Views = ()
        self.at: int | None = None
        self.notes = ""

    # What can be read

    @property
    def place(self) -> str:
        """Which view is shown, in words; empty while none is."""
        if self.at is None:
            return ""
        return f"view {self.at + 1} of {len(self.views)}: {self.views[self.at].name}"

    @property
    def is_shown(self) -> bool:
        """Whether the page of the view gone to is looked at, with the same lab or a model of that name."""
        now = self._take() if self.at is not None else None
        return now is not None and self.at is not None and _is_there(now, self.views[self.at].saved)

    @property
    def can_undo(self) -> bool:
        """Whether a change of the list can be taken back."""
        return self._past.can_undo

    @property
    def can_redo(self) -> bool:
        """Whether a change of the list can be made again."""
        return self._past.can_redo

    # What the person does

    def add(self, name: str = "") -> bool:
        """Keep what is shown as a view after the present one; False when nothing is shown or no room left."""
        saved = self._take()
        k = len(self.views) if self.at is None else self.at + 1
        if saved is None or len(self.views) >= MAX_VIEWS:
            return False
        view = KeptView(name=_name(name) or self._fresh(name_of_view(saved)), saved=saved)
        return self._change((*self.views[:k], view, *self.views[k:]), at=k)

    def keep_again(self, k: int) -> bool:
        """Let a view hold what is shown now; its name stays."""
        saved = self._take()
        if saved is None or not 0 <= k < len(self.views):
            return False
        return self._change(self._with(k, replace(self.views[k], saved=saved)), at=k)

    def rename(self, k: int, name: str) -> None:
        """Give a view another name; an empty one changes nothing."""
        if _name(name) and 0 <= k < len(self.views):
            self._change(self._with(k, replace(self.views[k], name=_name(name))), at=self.at)

    def move(self, k: int, by: int) -> None:
        """Move a view up (negative) or down, as far as the list goes; the shown one stays the shown one."""
        if not 0 <= k < len(self.views):
            return
        to = min(max(k + by, 0), len(self.views) - 1)
        order = [j for j in range(len(self.views)) if j != k]
        order.insert(to, k)
        at = order.index(self.at) if self.at is not None else None
        self._change(tuple(self.views[j] for j in order), at=at)

    def remove(self, k: int) -> None:
        """Take a view out of the list."""
        if 0 <= k < len(self.views):
            at = None if self.at is None or self.at == k else self.at - (self.at > k)
            self._change((*self.views[:k], *self.views[k + 1 :]), at=at)

    def undo(self) -> None:
        """Take back the last change of the list."""
        self._take_over(self._past.undo(self.views))

    def redo(self) -> None:
        """Make the change again that was taken back."""
        self._take_over(self._past.redo(self.views))

    def go(self, k: int) -> None:
        """Show a view; one there is not does nothing."""
        if 0 <= k < len(self.views):
            self.at = k
            self.changed.going.emit()
            self.changed.at.emit()
            self._show(self.views[k].saved, f"go to view “{self.views[k].name}”")

    def next(self) -> None:
        """Show the view after the present one: the first when none is shown. It ends with the last."""
        self.go(0 if self.at is None else self.at + 1)

    def previous(self) -> None:
        """Show the view before the present one: the last when none is shown. It ends with the first."""
        self.go(len(self.views) - 1 if self.at is None else self.at - 1)

    def write_notes(self, text: str) -> None:
        """Take over what stands there now, cut where a session file would be too large."""
        kept = text.replace("\0", "")[:MAX_NOTES]
        if kept != self.notes:
            self.notes = kept
            self.changed.notes.emit()

    def write(self, views: Views, notes: str) -> None:
        """Another session is open: take its views and notes over."""
        self.write_notes(notes)
        self._past.forget()
        self.views, self.at = views, None
        self.changed.going.emit()
        self.changed.views.emit()
        self.changed.at.emit()

    # Within

    def _fresh(self, name: str) -> str:
        """The name, with a number in front where another view has it already."""
        taken = {view.name for view in self.views}
        numbered = (_name(f"{n}: {name}") for n in range(2, MAX_VIEWS + 2))
        return name if name not in taken else next(found for found in numbered if found not in taken)

    def _with(self, k: int, view: KeptView) -> Views:
        return (*self.views[:k], view, *self.views[k + 1 :])

    def _change(self, views: Views, *, at: int | None) -> bool:
        if views == self.views:
            return True
        if not self._fits(views):
            return False
        self._past.leave(self.views)
        self.views, self.at = views, at
        self.changed.views.emit()
        self.changed.at.emit()
        return True

    def _take_over(self, views: Views) -> None:
        if views != self.views:
            self.views, self.at = views, None
            self.changed.views.emit()
            self.changed.at.emit()


def name_of_view(saved: SavedSession) -> str:
    """A name for what is shown, until a person gives it one: the lab, the page, or view, head and text."""
    look, setting = saved.look, saved.setting
    if look.page == "labs" and look.lab:
        return _name(look.lab)
    if look.page not in ("explore", "compare"):
        return _name(f"{look.page.capitalize()} {_TABS.get(look.tab, look.tab)}")
    head = f"{setting.selection[-1].stack} {setting.selection[-1].label}" if setting.selection else ""
    page = "Compare" if look.page == "compare" else _VIEWS.get(look.view, "")
    words = " ".join(filter(None, (page, head)))
    text = " ".join(setting.text.split())
    return _name(f"{words} · {text}" if words and text else words or text or "view")


def _is_there(now: SavedSession, then: SavedSession) -> bool:
    page = now.look.page
    if page != then.look.page:
        return False
    if page == "labs":
        return now.look.lab == then.look.lab
    return page in ("train", "learn") or now.model == then.model


def _name(text: str) -> str:
    cut = " ".join(text.replace("\0", "").split())
    return cut if len(cut) <= MAX_VIEW_NAME else f"{cut[: MAX_VIEW_NAME - 1]}…"
