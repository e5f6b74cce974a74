"""The text of a recipe while it is being edited: where it comes from, whether it is TOML, single values.

What a recipe *means* is checked by the engine when a run starts; here only its form. Must not import Qt.
"""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from attnscope import paths
from attnscope.errors import LoadError
from attnscope.strict_toml import parse_toml, read_toml_text

_WHERE = re.compile(r"\s*\((?:at line (\d+), column \d+|at end of document)\)$")
_ADVICE = {
    "Invalid statement": ": write n_steps = 500, or a heading such as [training].",
    "Invalid value": ': texts need quotes, such as kind = "task".',
}
"""What helps against the faults that Python's own words leave open."""
_SECTION = re.compile(r"^\s*\[+\s*([^\[\]]+?)\s*\]+\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFile:
    """A recipe that can be chosen: its name and its path."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeProblem:
    """Why a text is not TOML; `line` counts from 1."""

    line: int
    message: str

    @property
    def sentence(self) -> str:
        """The problem as people read it."""
        return f"Line {self.line}: {self.message}"


def list_recipes(folder: Path) -> tuple[RecipeFile, ...]:
    """The recipes in a folder by name; none when there is no such folder."""
    if not folder.is_dir():
        return ()
    return tuple(RecipeFile(name=path.stem, path=str(path)) for path in sorted(folder.glob("*.toml")))


def offered_recipes() -> tuple[RecipeFile, ...]:
    """The recipes that come with the program; none where its resources are missing."""
    try:
        return list_recipes(paths.resources_folder() / "recipes")
    except LoadError:
        return ()


def fresh_folder(where: Path, name: str) -> Path:
    """A folder named `name`, `name-2`, … in `where` that does not exist yet."""
    folder, number = where / name, 2
    while folder.exists():
        folder = where / f"{name}-{number}"
        number += 1
    return folder


def read_recipe_text(path: Path) -> str:
    """The text of a recipe file; raises LoadError for what cannot be a recipe."""
    return read_toml_text(path, what=path.name)


def words_of_recipe(text: str) -> str:
    """What a recipe says of itself: the comment that it begins with, as one line of text."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(" ".join(line.lstrip("#").split()) for line in lines).strip()


def check_recipe_text(text: str) -> RecipeProblem | None:
    """The first place where the text is not TOML, None when it is."""
    try:
        parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        words = str(error)
        found = _WHERE.search(words)
        n_lines = max(1, text.count("\n") + (not text.endswith("\n")))
        line = int(found.group(1)) if found and found.group(1) else n_lines
        fault = _WHERE.sub("", words)
        return RecipeProblem(line=line, message=fault + _ADVICE.get(fault, "."))
    return None


def recipe_value(text: str, section: str, key: str) -> object | None:
    """The value of `section.key`, None when the text is not TOML or does not have it."""
    try:
        table = parse_toml(text).get(section)
    except tomllib.TOMLDecodeError:
        return None
    return table.get(key) if isinstance(table, dict) else None


def watched_sentences(text: str) -> tuple[tuple[str, str | None], ...]:
    """The sentences that a recipe watches, each with its target, where it has one."""
    found = ((table.get("text"), table.get("target")) for table in _watches(text))
    return tuple(
        (sentence, target if isinstance(target, str) and target.strip() else None)
        for sentence, target in found
        if isinstance(sentence, str)
    )


def watched_head(text: str) -> str:
    """The head that a recipe wants to be looked at first, such as `cross:L1H0`; empty where it names none."""
    return next((str(table.get("head", "")) for table in _watches(text)), "")


def _watches(text: str) -> list[dict[str, object]]:
    try:
        watches = parse_toml(text).get("watch")
    except tomllib.TOMLDecodeError:
        return []
    return [watch for watch in watches if isinstance(watch, dict)] if isinstance(watches, list) else []


def with_recipe_value(text: str, section: str, key: str, value: str) -> str:
    """The text with the string `section.key` set, everything else (comments too) as it was."""
    return with_written_value(text, section, key, json.dumps(value, ensure_ascii=False))


def with_written_value(text: str, section: str, key: str, value: str) -> str:
    """The text with `section.key` set to what TOML already says as `value`, everything else as it was."""
    written = f"{key} = {value}"
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if _section_of(line) == section), None)
    if start is None:
        gap = [""] if lines and lines[-1].strip() else []
        return "\n".join([*lines, *gap, f"[{section}]", written]) + "\n"
    stop = next((i for i in range(start + 1, len(lines)) if _section_of(lines[i])), len(lines))
    for i in range(start + 1, stop):
        if re.match(rf"^\s*{re.escape(key)}\s*=", lines[i]):
            lines[i] = written
            return "\n".join(lines) + "\n"
    lines.insert(start + 1, written)
    return "\n".join(lines) + "\n"


def with_model(text: str, keys: Sequence[tuple[str, str]]) -> str:
    """The text with these keys, TOML values, as the whole of [model]; comments in it stay."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if _section_of(line) == "model"), None)
    written = [f"{key} = {value}" for key, value in keys]
    if start is None:
        return "\n".join(["[model]", *written, "", *lines]) + "\n"
    stop = next((i for i in range(start + 1, len(lines)) if _section_of(lines[i])), len(lines))
    kept = [line for line in lines[start + 1 : stop] if line.lstrip().startswith("#")]
    gap = [""] if stop < len(lines) else []
    return "\n".join([*lines[: start + 1], *kept, *written, *gap, *lines[stop:]]) + "\n"


def line_of_value(text: str, section: str, key: str) -> int | None:
    """The line, from 1, that sets `section.key`; None when no line does."""
    present = ""
    for number, line in enumerate(text.splitlines(), start=1):
        present = _section_of(line) or present
        if present == section and re.match(rf"^\s*{re.escape(key)}\s*=", line):
            return number
    return None


def _section_of(line: str) -> str:
    found = _SECTION.match(line)
    return found.group(1) if found else ""
