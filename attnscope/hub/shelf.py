"""The shelf in resources/shelf.toml, read strictly: a person may add to it."""

import re
from functools import cache
from pathlib import Path, PurePosixPath
from tomllib import TOMLDecodeError

from attnscope.codec import Codec, Fault, keys_of
from attnscope.errors import LoadError
from attnscope.paths import resources_folder
from attnscope.records.shelf import ShelfEntry
from attnscope.strict_toml import parse_toml, read_toml_text

_FIELDS = keys_of(ShelfEntry)
_CODEC = Codec()
_OF_PACKAGE = ("package", "file", "sha256")
_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_SHORT = re.compile(r"[a-z][a-z0-9-]{0,30}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_model_id(source: str) -> bool:
    """Whether `source` could be the id of a model on the Hub."""
    return _ID.fullmatch(source) is not None and ".." not in source and "--" not in source


@cache
def shelf_entries() -> tuple[ShelfEntry, ...]:
    """The models of the shelf in its order; raises LoadError where the file is not as it should be."""
    return read_shelf(resources_folder() / "shelf.toml")


def full_name(name: str) -> str:
    """The owner/name of the model on the shelf that is called so for short; else the name as it is."""
    said = name.casefold()
    for entry in shelf_entries():
        names = (entry.name, entry.name.rpartition("/")[2], entry.title, entry.short)
        if said and said in (known.casefold() for known in names):
            return entry.name
    return name


def read_shelf(path: Path) -> tuple[ShelfEntry, ...]:
    """The models that a file lists under [[model]]; raises LoadError."""
    text = read_toml_text(path, action="Install AttnScope again.")
    try:
        listed = parse_toml(text).get("model", [])
    except TOMLDecodeError as error:
        raise _wrong(path, str(error)) from error
    if not isinstance(listed, list):
        raise _wrong(path, "its models are not listed under [[model]]")
    entries = tuple(_entry(path, number, values) for number, values in enumerate(listed, start=1))
    names = [name for entry in entries for name in (entry.name, entry.short) if name]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _wrong(path, f"it lists {twice[0]} twice")
    return entries


def _entry(path: Path, number: int, values: object) -> ShelfEntry:
    what = f"model {number}"
    if not isinstance(values, dict):
        raise _wrong(path, f"{what} is not a table")
    what = f"{what} ({str(values.get('name', ''))[:80]})"
    if unknown := sorted(set(values) - set(_FIELDS)):
        raise _wrong(path, f"{what} has the unknown key {unknown[0][:40]!r}")
    try:
        entry = _CODEC.read(ShelfEntry, values)
    except Fault as fault:
        key = fault.place
        reason = f"{what}: {key} is {str(values[key])[:40]!r}" if key in values else f"{what} has no {key}"
        raise _wrong(path, reason) from fault
    if not is_model_id(entry.name) or "/" not in entry.name:
        raise _wrong(path, f"{what} is not an owner/name")
    _check_package(path, what, entry)
    return entry


def _check_package(path: Path, what: str, entry: ShelfEntry) -> None:
    given = [key for key in _OF_PACKAGE if getattr(entry, key)]
    if entry.short and not (given and _SHORT.fullmatch(entry.short)):
        raise _wrong(
            path,
            f"{what} has the short name {entry.short[:40]!r}, which does not belong to a package's model",
        )
    if not given:
        return
    if len(given) < len(_OF_PACKAGE):
        raise _wrong(path, f"{what} names {given[0]} without {', '.join(set(_OF_PACKAGE) - set(given))}")
    inside = PurePosixPath(entry.file)
    if inside.is_absolute() or ".." in inside.parts or "\\" in entry.file:
        raise _wrong(path, f"{what} names the file {entry.file[:80]!r}, which is not inside its package")
    if not entry.package.isidentifier() or not _SHA256.fullmatch(entry.sha256):
        raise _wrong(path, f"{what} needs the name a package is imported by and 64 hexadecimal digits")


def _wrong(path: Path, reason: str) -> LoadError:
    return LoadError(
        f"The shelf of models {path} cannot be read: {reason}.",
        kind="shelf",
        expected="[[model]] with " + ", ".join(_FIELDS),
        action="Restore the file, or install AttnScope again.",
    )
