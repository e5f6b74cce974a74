"""The choices of the Compare page in a session file, written and read strictly."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar

from attnscope.records.interventions import interventions_as_json
from attnscope.records.shelf import on_this_machine
from attnscope.records.sites import Gates
from attnscope.viewmodels.maps.alignment import WAYS
from attnscope.viewmodels.session.comparing import (
    DEFAULT_COMPARING,
    LIMITS,
    ORDERS,
    Changes,
    Comparing,
    Kept,
    SideChoice,
)
from attnscope.viewmodels.session.reader import (
    SessionReader,
    absolute_source,
    read_gate,
    read_interventions,
    relative_source,
)
from attnscope.viewmodels.session.typed_text import clean_text

Name = TypeVar("Name", bound=str)
_CHANGES: dict[Changes, str] = {"untouched": "", "explore": "", "kept": ""}


def comparing_to_json(compared: Comparing, folder: Path | None) -> dict[str, object]:
    """Both sides and how they are compared; models under `folder` by their path from there."""
    return {
        "A": _side_to_json(compared.first, folder),
        "B": _side_to_json(compared.second, folder),
        "way": compared.way,
        "limit": compared.limit,
        "order": compared.order,
        "has_all_stacks": compared.has_all_stacks,
    }


def comparing_from(reader: SessionReader, folder: Path | None) -> Comparing:
    """What `comparing_to_json` wrote; sessions of older programs have nothing of it. Raises LoadError."""
    default = DEFAULT_COMPARING
    return Comparing(
        first=_side_from(reader.part("A"), default.first, folder),
        second=_side_from(reader.part("B"), default.second, folder),
        way=_one_of(reader, "way", WAYS, default.way),
        limit=_one_of(reader, "limit", LIMITS, default.limit),
        order=_one_of(reader, "order", ORDERS, default.order),
        has_all_stacks=reader.flag("has_all_stacks"),
    )


def _side_to_json(choice: SideChoice, folder: Path | None) -> dict[str, object]:
    kept = choice.kept if choice.changes == "kept" else None
    side: dict[str, object] = {
        "model": None if choice.model is None else relative_source(choice.model, folder),
        "text": choice.text,
        "target": choice.target,
        "changes": choice.changes,
    }
    if kept is not None:
        side["kept"] = {
            "source": relative_source(kept.source, folder),
            "text": kept.text,
            "target": kept.target,
            "gates": [[h.stack, h.layer, h.head, value] for h, value in kept.gates.values],
            "interventions": interventions_as_json(kept.interventions),
        }
    return side


def _side_from(reader: SessionReader, default: SideChoice, folder: Path | None) -> SideChoice:
    model = _text(reader, "model")
    changes = _one_of(reader, "changes", _CHANGES, default.changes)
    if changes == "kept" and "kept" not in reader.values:
        raise reader.refuse("a side of the comparison is kept, but what was kept is missing")
    return SideChoice(
        model=None if model is None else on_this_machine(absolute_source(model, folder)),
        text=_text(reader, "text", is_cleaned=True),
        target=_text(reader, "target", is_cleaned=True),
        changes=changes,
        kept=_kept_from(reader.part("kept"), folder) if changes == "kept" else None,
    )


def _kept_from(reader: SessionReader, folder: Path | None) -> Kept:
    return Kept(
        source=on_this_machine(absolute_source(reader.text("source"), folder)),
        text=clean_text(reader.text("text")).text,
        target=_text(reader, "target", is_cleaned=True),
        gates=Gates.of(dict(read_gate(reader, entry) for entry in reader.entries("gates"))),
        interventions=read_interventions(reader),
    )


def _text(
    reader: SessionReader, name: Literal["model", "text", "target"], *, is_cleaned: bool = False
) -> str | None:
    if reader.values.get(name) is None:
        return None
    text = reader.text(name)
    return clean_text(text).text if is_cleaned else text


def _one_of(reader: SessionReader, name: str, known: Mapping[Name, str], default: Name) -> Name:
    found = reader.text(name, default, most=40)
    for choice in known:
        if choice == found:
            return choice
    raise reader.refuse(f"'{name}' is '{found}', not {' or '.join(known)}")
