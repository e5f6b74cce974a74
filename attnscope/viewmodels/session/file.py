"""A session as a file: model by name and hash, texts, gates, selection, comparison, looks, notes, kept views.

Strict JSON with a cap on its size. Nothing in it is run, and no path in it is opened but those of models.
Fields of a newer program are kept aside with a warning; a damaged file is refused by name (F60, F62, F63).
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from attnscope import paths
from attnscope.codec import At, AtMost, Caps, Codec, Fault, Once, Through
from attnscope.errors import LoadError
from attnscope.outside import read_outside
from attnscope.records.interventions import HEAD_FORMS, HEAD_ROWS
from attnscope.records.models import SOURCE, Source, on_this_machine
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.strict_json import parse_object
from attnscope.viewmodels.labs.controls import LabValues
from attnscope.viewmodels.session.comparing import SOURCE_HERE
from attnscope.viewmodels.session.history import Setting
from attnscope.viewmodels.session.typed_text import CLEANED, MAX_CHARACTERS, clean_typed

ENDING = ".attnscope"
FORMAT, _WITHOUT_VIEWS = 3, 2
"""Of a session with kept views, and of one without, which older programs read whole."""
MAX_BYTES, MAX_NOTES = 2_000_000, 100_000
MAX_VIEWS, MAX_VIEW_NAME = 100, 80
_CAPS = Caps(text=4 * MAX_CHARACTERS, items=20_000)
_Name = Annotated[str, AtMost(40)]
_Simple = bool | int | float | Annotated[str, AtMost(1_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookSaved:
    """How things were shown, as names that are checked again.

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
    """A view with a name. What it holds has no notes and no kept views of its own."""

    name: Annotated[str, AtMost(MAX_VIEW_NAME), Once("")]
    saved: Annotated["SavedSession", At("")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSession:
    """What a session file holds. `sha256` is of the model's weights; `warning` what was not understood."""

    source: Annotated[Source, At("model.source")] = ""
    model: Annotated[str, At("model.name")] = ""
    sha256: Annotated[str, At("model.sha256"), AtMost(128)] = ""
    setting: Annotated[Setting, At("")] = field(default_factory=Setting)
    look: LookSaved = field(default_factory=LookSaved)
    notes: Annotated[str, AtMost(MAX_NOTES)] = ""
    warning: Annotated[str, At(None)] = ""
    views: Annotated[tuple[KeptView, ...], At("stops"), AtMost(MAX_VIEWS)] = ()


def _codec(folder: Path | None) -> Codec:
    """How sessions are written; models under `folder` by their path from there."""
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
        "format": FORMAT if saved.views else _WITHOUT_VIEWS,
        "program": f"AttnScope {version}".strip(),
        **_codec(folder).write(saved),
    }
    _drop_nested(content)
    if not saved.views:
        del content["stops"]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def read_session(path: Path) -> SavedSession:
    """The session in a file; raises LoadError saying what is wrong with it."""
    what = f"The session {path}"
    data = read_outside(path, expected="a session file", max_bytes=MAX_BYTES, what=what)
    return session_from_bytes(data, what=str(path), folder=path.parent)


def session_from_bytes(data: bytes, *, what: str, folder: Path | None = None) -> SavedSession:
    """Read a session strictly; raises LoadError naming what is wrong."""
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
    """Leave kept views without notes and kept views of their own."""
    stops = values.get("stops")
    for stop in stops if isinstance(stops, list) else ():
        if isinstance(stop, dict):
            stop.pop("notes", None)
            stop.pop("stops", None)


def _absolute(source: str, folder: Path | None) -> str:
    """The way back from `relative_source`; the path of a demo model in another installation is its name."""
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
    """The setting for a model with these heads, and how many heads it names that the model lacks."""
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
