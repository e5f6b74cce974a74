"""A session as a file: model by name and hash, texts, gates, selection, comparison, looks, notes, kept views.

Strict JSON with a cap on its size. Nothing in it is run, and no path in it is opened but those of models.
Fields of a newer program are kept aside with a warning; a damaged file is rejected with an explanation (F60,
F62, F63).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from psygnal import Signal, SignalGroup

from attnscope import paths
from attnscope.codec import At, AtMost, Caps, Codec, Fault, Once, Through
from attnscope.errors import LoadError
from attnscope.outside import parse_object, read_outside
from attnscope.records.interventions import HEAD_FORMS, HEAD_ROWS
from attnscope.records.models import SOURCE, Source, on_this_machine
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.viewmodels.labs.controls import LabValues
from attnscope.viewmodels.session.changes import SOURCE_HERE, Setting, UndoStack
from attnscope.viewmodels.session.typed_text import CLEANED, MAX_CHARACTERS, clean_typed

ENDING = ".attnscope"
FORMAT, _WITHOUT_NOTES, _WITHOUT_VIEWS = 4, 3, 2
"""Of a session with notes on kept views, with views, and without: the oldest that is read whole."""
MAX_BYTES, MAX_NOTES = 2_000_000, 100_000
MAX_VIEWS, MAX_VIEW_NAME = 100, 80
_CAPS = Caps(text=4 * MAX_CHARACTERS, items=20_000)
_Name = Annotated[str, AtMost(40)]
_Simple = bool | int | float | Annotated[str, AtMost(1_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookSaved:
    """How things were shown, as names that are checked on reading.

    `lab_values` are what is set in the lab, `step` and `query` what is looked at inside a head.
    """

    page: _Name = "explore"
    view: _Name = "heatmap"
    colour_map: _Name = "viridis"
    scale: _Name = "fixed"
    least_weight: float = 0.0
    n_strongest: int = 0
    position: int = 0
    is_enlarged: bool = False
    tab: _Name = ""
    lab: Annotated[str, AtMost(80)] = ""
    lab_values: LabValues = ()
    step: _Name = ""
    query: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptView:
    """A view with a name and a `note`. Its content has no notes and no kept views of its own."""

    name: Annotated[str, AtMost(MAX_VIEW_NAME), Once("")]
    saved: Annotated["SavedSession", At("")]
    note: Annotated[str, AtMost(MAX_NOTES)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSession:
    """Content of a session file. `sha256` is of the weights; `warning` names what was not understood."""

    source: Annotated[Source, At("model.source")] = ""
    model: Annotated[str, At("model.name")] = ""
    sha256: Annotated[str, At("model.sha256"), AtMost(128)] = ""
    setting: Annotated[Setting, At("")] = field(default_factory=Setting)
    look: LookSaved = field(default_factory=LookSaved)
    notes: Annotated[str, AtMost(MAX_NOTES)] = ""
    warning: Annotated[str, At(None)] = ""
    views: Annotated[tuple[KeptView, ...], At("stops"), AtMost(MAX_VIEWS)] = ()


def _codec(folder: Path | None) -> Codec:
    """Codec of sessions; models under `folder` are written by their path from there."""
    return Codec(
        forms={
            **HEAD_FORMS,
            SOURCE: Through(
                str, lambda name: paths.relative_source(name, folder), lambda name: _absolute(name, folder)
            ),
            SOURCE_HERE: Through(Source, str, on_this_machine),
            CLEANED: Through(str, str, lambda text: clean_typed(text).text),
            LabValues: Through(
                Annotated[dict[str, _Simple], AtMost(1_000)], dict, lambda values: tuple(values.items())
            ),
        },
        rows=HEAD_ROWS,
        caps=_CAPS,
    )


def session_bytes(saved: SavedSession, *, folder: Path | None = None, version: str = "") -> bytes:
    """The file's content. A model under `folder` is named by its path from there, so both can be moved."""
    content = {
        "format": _format_of(saved.views),
        "program": f"AttnScope {version}".strip(),
        **_codec(folder).write(saved),
    }
    _drop_nested(content)
    if not saved.views:
        del content["stops"]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _format_of(views: "Views") -> int:
    return FORMAT if any(view.note for view in views) else _WITHOUT_NOTES if views else _WITHOUT_VIEWS


def read_session(path: Path) -> SavedSession:
    """The session in a file; raises LoadError with the fault."""
    what = f"The session {path}"
    data = read_outside(path, expected="a session file", max_bytes=MAX_BYTES, what=what)
    return session_from_bytes(data, what=str(path), folder=path.parent)


def session_from_bytes(data: bytes, *, what: str, folder: Path | None = None) -> SavedSession:
    """Read a session strictly; raises LoadError naming the fault."""
    try:
        values = parse_object(data, what=what, kind="session")
    except LoadError as error:
        raise _refused(f"This is not an AttnScope session. {error.happened}", error.kind) from error
    if not values.keys() & {"format", "model", "text"}:
        raise _refused(f"This is not an AttnScope session. {what} names no model and has no text.")
    paths.rename_demos(values)
    _drop_nested(values)
    try:
        found = _codec(folder).read(_Heading, values).format
        saved = _codec(folder).read(SavedSession, values)
        for one in (saved, *(view.saved for view in saved.views)):
            for side in (one.setting.compared.first, one.setting.compared.second):
                if side.changes == "kept" and side.kept is None:
                    raise Fault("a side of the comparison is kept, but what was kept is missing")
    except ValueError as error:
        raise _refused(f"The session {what} cannot be opened: {error}.") from error
    warning = ""
    if found > FORMAT:
        warning = (
            f"The session was saved by a newer AttnScope (format {found}, known: {FORMAT}). "
            "Only what this version knows is shown; overwriting the file would lose the rest."
        )
    views = tuple(replace(view, name=" ".join(view.name.split()) or "view") for view in saved.views)
    return replace(saved, warning=warning, views=views)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heading:
    format: int = FORMAT


def _drop_nested(values: dict[str, object]) -> None:
    stops = values.get("stops")
    for stop in stops if isinstance(stops, list) else ():
        if isinstance(stop, dict):
            stop.pop("notes", None)
            stop.pop("stops", None)


def _absolute(source: str, folder: Path | None) -> str:
    """The inverse of `relative_source`; the path of a demo model in another installation becomes its name."""
    if folder is None or not source.startswith("./"):
        return paths.demo_name(source) or source
    return str(folder.absolute() / source[2:])


def _refused(happened: str, kind: str = "session") -> LoadError:
    return LoadError(
        happened,
        kind=kind,
        expected=f"a session saved by AttnScope (*{ENDING}), at most {MAX_BYTES // 1_000_000} MB",
        action="Open another one, or its automatic copy with File ▸ Restore the last session.",
    )


def setting_for(setting: Setting, heads: frozenset[HeadRef]) -> tuple[Setting, int]:
    """The setting for a model with these heads, and the number of heads that it names but the model lacks."""
    gates = {head: value for head, value in setting.gates.values if head in heads}
    selection = tuple(dict.fromkeys(head for head in setting.selection if head in heads))
    if selection:
        selection = tuple(head for head in selection if head.stack == selection[-1].stack)
    n_lacking = len(setting.gates.values) - len(gates) + len(set(setting.selection) - heads)
    interventions = tuple(i for i in setting.interventions if i.head in heads)
    kept = Setting(
        gates=Gates.of(gates) if gates else NO_GATES,
        selection=selection,
        interventions=interventions,
        aspect=setting.aspect,
        text=setting.text,
        target=setting.target,
        compared=setting.compared,
    )
    return kept, n_lacking


Views = tuple[KeptView, ...]
_VIEWS = {"lines": "Lines", "picture": "Picture", "inside": "Step by step"}
"""How the views of Explore begin the name of a view; the map does not."""
_TABS = {"Alike": "Similar heads", "Inside": "Gradients and updates"}
"""Tabs that are labelled otherwise than files name them."""


class KeptChanges(SignalGroup):
    """Signals of the kept views."""

    views = Signal()
    at = Signal()
    """Another one is shown."""
    notes = Signal()
    going = Signal()
    """A view or another session is about to be shown."""


class KeptViews:
    """The list of kept views, with a current position.

    `take` gives what is shown now, None while there is nothing to show; `show` brings it back; `fits` says
    whether so much can be saved in one file; `reads` what the open model reads.
    """

    def __init__(
        self,
        take: Callable[[], SavedSession | None],
        show: Callable[[SavedSession, str], None],
        fits: Callable[[Views], bool],
        reads: Callable[[], str] = lambda: "",
    ) -> None:
        self._take, self._show, self._fits, self._reads = take, show, fits, reads
        self.changed = KeptChanges()
        self._past: UndoStack[Views] = UndoStack()
        self.views: Views = ()
        self.at: int | None = None
        self.notes = ""

    # What can be read

    @property
    def place(self) -> str:
        """The current view in words; empty if there is none."""
        if self.at is None:
            return ""
        return f"view {self.at + 1} of {len(self.views)}: {self.views[self.at].name}"

    @property
    def note(self) -> str:
        """Note on the current view."""
        return "" if self.at is None else self.views[self.at].note

    @property
    def is_shown(self) -> bool:
        """Whether the page of the current view is shown, with the same lab or a model of that name."""
        now = self._take() if self.at is not None else None
        return now is not None and self.at is not None and _is_there(now, self.views[self.at].saved)

    @property
    def can_undo(self) -> bool:
        """Whether a change of the list can be undone."""
        return self._past.can_undo

    @property
    def can_redo(self) -> bool:
        """Whether a change of the list can be redone."""
        return self._past.can_redo

    # User actions

    def add(self, name: str = "") -> bool:
        """Keep the current display as a view after the current one; False if empty or no room is left."""
        saved = self._take()
        k = len(self.views) if self.at is None else self.at + 1
        if saved is None or len(self.views) >= MAX_VIEWS:
            return False
        view = KeptView(
            name=_name(name) or self._fresh(name_of_view(saved, reads=self._reads())), saved=saved
        )
        return self._change((*self.views[:k], view, *self.views[k:]), at=k)

    def keep_again(self, k: int) -> bool:
        """Replace a view by the current display; its name stays."""
        saved = self._take()
        if saved is None or not 0 <= k < len(self.views):
            return False
        return self._change(self._with(k, replace(self.views[k], saved=saved)), at=k)

    def rename(self, k: int, name: str) -> None:
        """Give a view another name; an empty one changes nothing."""
        if _name(name) and 0 <= k < len(self.views):
            self._change(self._with(k, replace(self.views[k], name=_name(name))), at=self.at)

    def move(self, k: int, by: int) -> None:
        """Move a view up (negative) or down, as far as the list goes; the current one stays current."""
        if not 0 <= k < len(self.views):
            return
        to = min(max(k + by, 0), len(self.views) - 1)
        order = [j for j in range(len(self.views)) if j != k]
        order.insert(to, k)
        at = order.index(self.at) if self.at is not None else None
        self._change(tuple(self.views[j] for j in order), at=at)

    def remove(self, k: int) -> None:
        """Remove a view from the list."""
        if 0 <= k < len(self.views):
            at = None if self.at is None or self.at == k else self.at - (self.at > k)
            self._change((*self.views[:k], *self.views[k + 1 :]), at=at)

    def undo(self) -> None:
        """Undo the last change of the list."""
        self._take_over(self._past.undo(self.views))

    def redo(self) -> None:
        """Redo the last undone change."""
        self._take_over(self._past.redo(self.views))

    def go(self, k: int) -> None:
        """Show a view; a missing one does nothing."""
        if 0 <= k < len(self.views):
            self.at = k
            self.changed.going.emit()
            self.changed.at.emit()
            self._show(self.views[k].saved, f"go to view “{self.views[k].name}”")

    def next(self) -> None:
        """Show the view after the current one: the first if none is shown. Stops at the last."""
        self.go(0 if self.at is None else self.at + 1)

    def previous(self) -> None:
        """Show the view before the current one: the last if none is shown. Stops at the first."""
        self.go(len(self.views) - 1 if self.at is None else self.at - 1)

    def write_notes(self, text: str) -> None:
        """Store the notes, cut if a session file would be too large."""
        kept = text.replace("\0", "")[:MAX_NOTES]
        if kept != self.notes:
            self.notes = kept
            self.changed.notes.emit()

    def write_note(self, text: str) -> None:
        """The same for the note on the current view; it is not a change of the list."""
        kept = text.replace("\0", "")[:MAX_NOTES]
        if self.at is None or kept == self.note:
            return
        views = self._with(self.at, replace(self.views[self.at], note=kept))
        if len(kept) < len(self.note) or self._fits(views):
            self.views = views
            self.changed.notes.emit()

    def write(self, views: Views, notes: str) -> None:
        """Take the views and notes of another session."""
        self.write_notes(notes)
        self._past.forget()
        self.views, self.at = views, None
        self.changed.going.emit()
        self.changed.views.emit()
        self.changed.at.emit()

    # Within

    def _fresh(self, name: str) -> str:
        """The name, numbered if another view has it already."""
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
        """Set another list, with the current notes."""
        notes = {id(view.saved): view.note for view in self.views}
        views = tuple(replace(view, note=notes.get(id(view.saved), view.note)) for view in views)
        if views != self.views:
            self.views, self.at = views, None
            self.changed.views.emit()
            self.changed.at.emit()


def name_of_view(saved: SavedSession, *, reads: str = "") -> str:
    """A default name for the display: the lab, the page, or view, head and text.

    Of a model that does not read pictures a picture is its heatmap.
    """
    look, setting = saved.look, saved.setting
    if look.page == "labs" and look.lab:
        return _name(look.lab)
    if look.page not in ("explore", "compare"):
        return _name(f"{look.page.capitalize()} {_TABS.get(look.tab, look.tab)}")
    head = f"{setting.selection[-1].stack} {setting.selection[-1].label}" if setting.selection else ""
    view = "" if look.view == "picture" and reads != "picture" else _VIEWS.get(look.view, "")
    page = "Compare" if look.page == "compare" else view
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
