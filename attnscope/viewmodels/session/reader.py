"""Reading a session file strictly: each field of another type is refused by name (F60, F62).

Nothing in a session is run, and no path in it is opened but those of models.
"""

import math
from pathlib import Path

from attnscope import paths
from attnscope.errors import LoadError
from attnscope.records.interventions import Interventions, interventions_from_json
from attnscope.records.sites import STACKS, HeadRef, Stack
from attnscope.viewmodels.session.typed_text import MAX_CHARACTERS

ENDING = ".attnscope"
MAX_BYTES = 2_000_000
MAX_HEADS = 20_000
MAX_NOTES = 100_000
MAX_SIMPLE = 1_000


class SessionReader:
    """Reads the fields of one JSON object; each wrong type is refused by name."""

    def __init__(self, values: dict[str, object], what: str) -> None:
        self.values, self._what = values, what

    def refuse(self, reason: str) -> LoadError:
        """The error that says what is wrong with the file."""
        return refused(self._what, reason, kind="session")

    def part(self, name: str) -> "SessionReader":
        """An object within this one; an empty one where there is none."""
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            raise self.refuse(f"'{name}' is not an object")
        return SessionReader(value, self._what)

    def parts(self, name: str, most: int) -> "list[SessionReader]":
        """A list of at most `most` objects."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or len(value) > most or not all(isinstance(v, dict) for v in value):
            raise self.refuse(f"'{name}' is not a list of at most {most} objects")
        return [SessionReader(part, self._what) for part in value]

    def simple(self) -> tuple[tuple[str, bool | int | float | str], ...]:
        """Every field of this object, each a short text, a finite number, true or false."""
        found: list[tuple[str, bool | int | float | str]] = []
        for name, value in self.values.items():
            if isinstance(value, int | float) and math.isfinite(value) and len(found) < MAX_SIMPLE:
                found.append((name, value))
            elif isinstance(value, str) and len(value) <= MAX_SIMPLE and len(found) < MAX_SIMPLE:
                found.append((name, value))
            else:
                raise self.refuse(f"'{name[:40]}' is neither a short text nor a number")
        return tuple(found)

    def text(self, name: str, default: str = "", *, most: int = 4 * MAX_CHARACTERS) -> str:
        """A text of at most `most` characters."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or len(value) > most or "\0" in value:
            raise self.refuse(f"'{name}' is not a text of at most {most:,} characters")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number."""
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.refuse(f"'{name}' is not a number")
        return value

    def flag(self, name: str) -> bool:
        """True or false; false where there is none."""
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            raise self.refuse(f"'{name}' is neither true nor false")
        return value

    def entries(self, name: str) -> list[list[object]]:
        """A list of lists, such as heads and gates are written as."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or len(value) > MAX_HEADS:
            raise self.refuse(f"'{name}' is not a list of at most {MAX_HEADS:,} heads")
        if not all(isinstance(entry, list) for entry in value):
            raise self.refuse(f"'{name}' holds something that is not a head")
        return value


def read_head(reader: SessionReader, entry: list[object]) -> HeadRef:
    """A head written as [stack, layer, head]; raises LoadError."""
    stacks: dict[object, Stack] = {name: name for name in STACKS}
    numbers = entry[1:3]
    is_named = len(entry) >= 3 and isinstance(entry[0], str) and entry[0] in stacks
    if not is_named or not all(type(n) is int and 0 <= n < 100_000 for n in numbers):
        raise reader.refuse(f"{str(entry)[:60]} is not a head: [stack, layer, head]")
    return HeadRef(stack=stacks[entry[0]], layer=int(str(numbers[0])), head=int(str(numbers[1])))


def read_gate(reader: SessionReader, entry: list[object]) -> tuple[HeadRef, float]:
    """A head with its gate, [stack, layer, head, value]; raises LoadError."""
    value = entry[3] if len(entry) == 4 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise reader.refuse(f"{str(entry)[:60]} is not a gate: [stack, layer, head, value]")
    return read_head(reader, entry), float(value)


def read_interventions(reader: SessionReader) -> Interventions:
    """The changes of single heads; raises LoadError for one of an unknown kind."""
    values = reader.values.get("interventions", [])
    if not isinstance(values, list) or len(values) > MAX_HEADS:
        raise reader.refuse(f"'interventions' is not a list of at most {MAX_HEADS:,} changes")
    try:
        found = interventions_from_json(values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise reader.refuse(f"'interventions' holds something unknown ({str(error)[:80]})") from error
    for change in found:
        read_head(reader, [change.head.stack, change.head.layer, change.head.head])
    return found


def relative_source(source: str, folder: Path | None) -> str:
    """A demo model's name, or the path from `folder` of a model under it; other sources as they are."""
    name = paths.demo_name(source)
    if name:
        return name
    path = Path(source)
    if folder is None or not path.is_absolute():
        return source
    try:
        return "./" + path.relative_to(folder.absolute()).as_posix()
    except ValueError:
        return source


def absolute_source(source: str, folder: Path | None) -> str:
    """The way back from `relative_source`; the path of a demo model in another installation is its name."""
    if folder is None or not source.startswith("./"):
        return paths.demo_name(source) or source
    return str(folder.absolute() / source[2:])


def refused_content(detail: str, *, kind: str) -> LoadError:
    """The error of a file that is no session at all; `detail` is the sentence that says why."""
    return _error(f"This is not an AttnScope session. {detail}", kind)


def refused(what: object, reason: str, *, kind: str) -> LoadError:
    """The error of a session that cannot be opened."""
    return _error(f"The session {what} cannot be opened: {reason}.", kind)


def _error(happened: str, kind: str) -> LoadError:
    return LoadError(
        happened,
        kind=kind,
        expected=f"a session saved by AttnScope (*{ENDING}), at most {MAX_BYTES // 1_000_000} MB",
        action="Open another one, or its automatic copy with File ▸ Restore the last session.",
    )
