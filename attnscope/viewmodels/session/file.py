"""A session as a file: model by name and hash, texts, gates, selection, comparison, looks, notes, kept views.

Strict JSON with a cap on its size. Nothing in it is run, and no path in it is opened but those of models.
Fields of a newer program are kept aside with a warning; a damaged file is refused by name (F60, F62, F63).
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from attnscope import paths
from attnscope.errors import LoadError, UserError
from attnscope.outside import read_outside
from attnscope.records.interventions import interventions_as_json
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.strict_json import parse_object
from attnscope.viewmodels.labs.controls import LabValues
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect
from attnscope.viewmodels.session.compare_file import comparing_from, comparing_to_json
from attnscope.viewmodels.session.history import Setting
from attnscope.viewmodels.session.reader import ENDING as ENDING
from attnscope.viewmodels.session.reader import (
    MAX_BYTES,
    MAX_NOTES,
    SessionReader,
    absolute_source,
    read_gate,
    read_head,
    read_interventions,
    refused_content,
    relative_source,
)
from attnscope.viewmodels.session.typed_text import MAX_CHARACTERS, clean_text

FORMAT, _WITHOUT_VIEWS = 3, 2
"""Of a session with kept views, and of one without, which older programs read whole."""
MAX_VIEWS, MAX_VIEW_NAME = 100, 80


@dataclass(frozen=True, slots=True, kw_only=True)
class LookSaved:
    """How things were shown, as names that are checked again.

    `lab_values` are what is set in the lab, `step` and `query` what is looked at inside a head.
    """

    page: str = "explore"
    view: str = "heatmap"
    colour_map: str = "viridis"
    scale: str = "fixed"
    least_weight: float = 0.0
    n_strongest: int = 0
    position: int = 0
    is_enlarged: bool = False
    tab: str = ""
    lab: str = ""
    lab_values: LabValues = ()
    step: str = ""
    query: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptView:
    """A view with a name. What it holds has no notes and no kept views of its own."""

    name: str
    saved: "SavedSession"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSession:
    """What a session file holds. `sha256` is of the model's weights; `warning` what was not understood."""

    source: str = ""
    model: str = ""
    sha256: str = ""
    setting: Setting = field(default_factory=Setting)
    look: LookSaved = field(default_factory=LookSaved)
    notes: str = ""
    warning: str = ""
    views: tuple[KeptView, ...] = ()


def session_bytes(saved: SavedSession, *, folder: Path | None = None, version: str = "") -> bytes:
    """The file's content. A model under `folder` is named by its path from there, so both can be moved."""
    content = {
        "format": FORMAT if saved.views else _WITHOUT_VIEWS,
        "program": f"AttnScope {version}".strip(),
        **_content(saved, folder),
        "notes": saved.notes,
    }
    if saved.views:
        content["stops"] = [{"name": view.name, **_content(view.saved, folder)} for view in saved.views]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _content(saved: SavedSession, folder: Path | None) -> dict[str, object]:
    """One moment: the model, what is set, and how it is shown."""
    setting = saved.setting
    look = {name: getattr(saved.look, name) for name in LookSaved.__dataclass_fields__}
    return {
        "model": {
            "source": relative_source(saved.source, folder),
            "name": saved.model,
            "sha256": saved.sha256,
        },
        "text": setting.text,
        "target": setting.target,
        "gates": [[h.stack, h.layer, h.head, value] for h, value in setting.gates.values],
        "interventions": interventions_as_json(setting.interventions),
        "selection": [[h.stack, h.layer, h.head] for h in setting.selection],
        "aspect": {
            "blend": setting.aspect.blend,
            "over": setting.aspect.over,
            "hidden": setting.aspect.hidden,
            "is_renormalised": setting.aspect.is_renormalised,
            "is_by_word": setting.aspect.is_by_word,
            "block": setting.aspect.block,
            "rows": setting.aspect.rows,
        },
        "compare": comparing_to_json(setting.compared, folder),
        "look": {**look, "lab_values": dict(saved.look.lab_values)},
    }


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
        raise refused_content(error.happened, kind=error.kind) from error
    paths.rename_demos(values)
    reader = SessionReader(values, what)
    if not values.keys() & {"format", "model", "text"}:
        raise refused_content(f"{what} names no model and has no text.", kind="session")
    found = reader.number("format", FORMAT)
    warning = ""
    if found > FORMAT:
        warning = (
            f"The session was saved by a newer AttnScope (format {found:g}, known: {FORMAT}). "
            "What is known of it is shown; saving over it would lose the rest."
        )
    return replace(
        _read_content(reader, folder),
        notes=reader.text("notes", most=MAX_NOTES),
        warning=warning,
        views=tuple(_read_view(part, folder) for part in reader.parts("stops", MAX_VIEWS)),
    )


def _read_view(reader: SessionReader, folder: Path | None) -> KeptView:
    name = " ".join(reader.text("name", most=MAX_VIEW_NAME).split())
    return KeptView(name=name or "view", saved=_read_content(reader, folder))


def _read_content(reader: SessionReader, folder: Path | None) -> SavedSession:
    model, aspect = reader.part("model"), reader.part("aspect")
    text = reader.text("text", most=4 * MAX_CHARACTERS)
    target = reader.values.get("target")
    try:
        setting = Setting(
            gates=Gates.of(dict(read_gate(reader, entry) for entry in reader.entries("gates"))),
            selection=tuple(read_head(reader, entry) for entry in reader.entries("selection")),
            aspect=Aspect(
                blend=aspect.text("blend", PLAIN.blend),  # type: ignore[arg-type]
                over=aspect.text("over", PLAIN.over),  # type: ignore[arg-type]
                hidden=aspect.text("hidden", PLAIN.hidden),  # type: ignore[arg-type]
                is_renormalised=aspect.flag("is_renormalised"),
                is_by_word=aspect.flag("is_by_word"),
                block=aspect.text("block", PLAIN.block),  # type: ignore[arg-type]
                rows=aspect.text("rows", "read"),  # type: ignore[arg-type]
            ),
            interventions=read_interventions(reader),
            compared=comparing_from(reader.part("compare"), folder),
            text=clean_text(text).text,
            target=clean_text(reader.text("target")).text if target is not None else None,
        )
    except UserError as error:
        if isinstance(error, LoadError):
            raise
        raise reader.refuse(str(error)) from error
    return SavedSession(
        source=absolute_source(model.text("source"), folder),
        model=model.text("name"),
        sha256=model.text("sha256", most=128),
        setting=setting,
        look=_look(reader.part("look")),
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


def _look(reader: SessionReader) -> LookSaved:
    return LookSaved(
        page=reader.text("page", "explore", most=40),
        view=reader.text("view", "heatmap", most=40),
        colour_map=reader.text("colour_map", "viridis", most=40),
        scale=reader.text("scale", "fixed", most=40),
        least_weight=reader.number("least_weight", 0.0),
        n_strongest=int(reader.number("n_strongest", 0)),
        position=int(reader.number("position", 0)),
        is_enlarged=reader.flag("is_enlarged"),
        tab=reader.text("tab", most=40),
        lab=reader.text("lab", most=80),
        lab_values=reader.part("lab_values").simple(),
        step=reader.text("step", most=40),
        query=int(reader.number("query", 0)),
    )
