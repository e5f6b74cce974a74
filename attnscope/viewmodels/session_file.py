"""A session as a file: the model by name and hash, texts, gates, selection, ways of looking, notes.

Strict JSON with a cap on its size. Nothing in it is run, and no path in it is opened but the model's.
Fields of a newer program are kept aside with a warning; a damaged file is refused by name (F60, F62, F63).
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from attnscope.errors import LoadError, UserError
from attnscope.records.interventions import Interventions, interventions_as_json, interventions_from_json
from attnscope.records.sites import NO_GATES, STACKS, Gates, HeadRef, Stack
from attnscope.strict_json import parse_object
from attnscope.viewmodels.aspect import PLAIN, Aspect
from attnscope.viewmodels.history import Setting
from attnscope.viewmodels.typed_text import MAX_CHARACTERS, clean_text

ENDING = ".attnscope"
FORMAT = 1
MAX_BYTES = 2_000_000
_MAX_HEADS = 20_000
_MAX_NOTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LookSaved:
    """How things were shown, as names that the view state checks again."""

    page: str = "explore"
    view: str = "heatmap"
    colour_map: str = "viridis"
    scale: str = "fixed"
    least_weight: float = 0.0
    n_strongest: int = 0
    position: int = 0


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


def session_bytes(saved: SavedSession, *, folder: Path | None = None, version: str = "") -> bytes:
    """The file's content. A model under `folder` is named by its path from there, so both can be moved."""
    setting, look = saved.setting, saved.look
    content = {
        "format": FORMAT,
        "program": f"AttnScope {version}".strip(),
        "model": {"source": _relative(saved.source, folder), "name": saved.model, "sha256": saved.sha256},
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
        },
        "look": {name: getattr(look, name) for name in LookSaved.__dataclass_fields__},
        "notes": saved.notes,
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def read_session(path: Path) -> SavedSession:
    """The session in a file; raises LoadError saying what is wrong with it."""
    try:
        if not path.is_file():
            raise _refuse(path, "it is not a file", kind="missing")
        if path.stat().st_size > MAX_BYTES:
            raise _refuse(path, f"it has {path.stat().st_size:,} bytes", kind="too-large")
        data = path.read_bytes()
    except OSError as error:
        raise _refuse(path, error.strerror or str(error), kind="unreadable") from error
    return session_from_bytes(data, what=str(path), folder=path.parent)


def session_from_bytes(data: bytes, *, what: str, folder: Path | None = None) -> SavedSession:
    """Read a session strictly; raises LoadError naming what is wrong."""
    reader = _Reader(parse_object(data, what=what, kind="session"), what)
    if not reader.values.keys() & {"format", "model", "text"}:
        raise reader.refuse("it names no model and has no text")
    found = reader.number("format", FORMAT)
    warning = ""
    if found > FORMAT:
        warning = (
            f"The session was saved by a newer AttnScope (format {found:g}, known: {FORMAT}). "
            "What is known of it is shown; saving over it would lose the rest."
        )
    model = reader.part("model")
    aspect, look = reader.part("aspect"), reader.part("look")
    text = reader.text("text", most=4 * MAX_CHARACTERS)
    target = reader.values.get("target")
    try:
        setting = Setting(
            gates=Gates.of(dict(_gate(reader, entry) for entry in reader.entries("gates"))),
            selection=tuple(_head(reader, entry) for entry in reader.entries("selection")),
            aspect=Aspect(
                blend=aspect.text("blend", PLAIN.blend),  # type: ignore[arg-type]
                over=aspect.text("over", PLAIN.over),  # type: ignore[arg-type]
                hidden=aspect.text("hidden", PLAIN.hidden),  # type: ignore[arg-type]
                is_renormalised=aspect.flag("is_renormalised"),
                is_by_word=aspect.flag("is_by_word"),
            ),
            interventions=_interventions(reader),
            text=clean_text(text).text,
            target=clean_text(reader.text("target")).text if target is not None else None,
        )
    except UserError as error:
        if isinstance(error, LoadError):
            raise
        raise reader.refuse(str(error)) from error
    return SavedSession(
        source=_absolute(model.text("source"), folder),
        model=model.text("name"),
        sha256=model.text("sha256", most=128),
        setting=setting,
        look=_look(look),
        notes=reader.text("notes", most=_MAX_NOTES),
        warning=warning,
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
    )
    return kept, n_lacking


class _Reader:
    """Reads the fields of one JSON object; each wrong type is refused by name."""

    def __init__(self, values: dict[str, object], what: str) -> None:
        self.values, self._what = values, what

    def refuse(self, reason: str) -> LoadError:
        return _refuse(self._what, reason, kind="session")

    def part(self, name: str) -> "_Reader":
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            raise self.refuse(f"'{name}' is not an object")
        return _Reader(value, self._what)

    def text(self, name: str, default: str = "", *, most: int = 4 * MAX_CHARACTERS) -> str:
        value = self.values.get(name, default)
        if not isinstance(value, str) or len(value) > most or "\0" in value:
            raise self.refuse(f"'{name}' is not a text of at most {most:,} characters")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.refuse(f"'{name}' is not a number")
        return value

    def flag(self, name: str) -> bool:
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            raise self.refuse(f"'{name}' is neither true nor false")
        return value

    def entries(self, name: str) -> list[list[object]]:
        value = self.values.get(name, [])
        if not isinstance(value, list) or len(value) > _MAX_HEADS:
            raise self.refuse(f"'{name}' is not a list of at most {_MAX_HEADS:,} heads")
        if not all(isinstance(entry, list) for entry in value):
            raise self.refuse(f"'{name}' holds something that is not a head")
        return value


def _head(reader: _Reader, entry: list[object]) -> HeadRef:
    stacks: dict[object, Stack] = {name: name for name in STACKS}
    numbers = entry[1:3]
    is_named = len(entry) >= 3 and isinstance(entry[0], str) and entry[0] in stacks
    if not is_named or not all(type(n) is int and 0 <= n < 100_000 for n in numbers):
        raise reader.refuse(f"{str(entry)[:60]} is not a head: [stack, layer, head]")
    return HeadRef(stack=stacks[entry[0]], layer=int(str(numbers[0])), head=int(str(numbers[1])))


def _gate(reader: _Reader, entry: list[object]) -> tuple[HeadRef, float]:
    value = entry[3] if len(entry) == 4 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise reader.refuse(f"{str(entry)[:60]} is not a gate: [stack, layer, head, value]")
    return _head(reader, entry), float(value)


def _interventions(reader: _Reader) -> Interventions:
    values = reader.values.get("interventions", [])
    if not isinstance(values, list) or len(values) > _MAX_HEADS:
        raise reader.refuse(f"'interventions' is not a list of at most {_MAX_HEADS:,} changes")
    try:
        found = interventions_from_json(values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise reader.refuse(f"'interventions' holds something unknown ({error})") from error
    for change in found:
        _head(reader, [change.head.stack, change.head.layer, change.head.head])
    return found


def _look(reader: _Reader) -> LookSaved:
    return LookSaved(
        page=reader.text("page", "explore", most=40),
        view=reader.text("view", "heatmap", most=40),
        colour_map=reader.text("colour_map", "viridis", most=40),
        scale=reader.text("scale", "fixed", most=40),
        least_weight=reader.number("least_weight", 0.0),
        n_strongest=int(reader.number("n_strongest", 0)),
        position=int(reader.number("position", 0)),
    )


def _relative(source: str, folder: Path | None) -> str:
    """The path from `folder` where the model lies under it; names and other paths as they are."""
    path = Path(source)
    if folder is None or not path.is_absolute():
        return source
    try:
        return "./" + path.relative_to(folder.absolute()).as_posix()
    except ValueError:
        return source


def _absolute(source: str, folder: Path | None) -> str:
    if folder is None or not source.startswith("./"):
        return source
    return str(folder.absolute() / source[2:])


def _refuse(what: object, reason: str, *, kind: str) -> LoadError:
    return LoadError(
        f"The session {what} cannot be opened: {reason}.",
        kind=kind,
        expected=f"a session saved by AttnScope (*{ENDING}), at most {MAX_BYTES // 1_000_000} MB",
        action="Open another one, or its automatic copy with File ▸ Restore the last session.",
    )
