"""What stands in the way of a folder that is to be written: nothing, an older one, somebody else's files."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attnscope.errors import SaveError
from attnscope.files import refuse_foreign_content

_MAX_NAME_BYTES = 255
"""Of a name, on every common file system."""
Purpose = Literal["model", "run", "runs"]
"""What the folder will hold: a model, which replaces an older one, or runs, which are gone on with."""
_GOES_ON: dict[Purpose, tuple[tuple[str, ...], str]] = {
    "model": ((), ""),
    "run": (("recipe.toml",), "It contains a run, which will be continued."),
    "runs": (("sweep.toml", "*/recipe.toml"), "It contains runs: complete ones are kept."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFound:
    """A folder named by a person, and a sentence on what saving there does."""

    path: str
    words: str
    is_possible: bool = True
    is_replaced: bool = False


def find_folder(place: str, name: str, purpose: Purpose) -> FolderFound:
    """What saving in the folder `name` of `place` would do."""
    name = name.strip()
    if words := _wrong_in(name, place):
        return FolderFound(path="", words=words, is_possible=False)
    path = Path(place.strip() or ".").expanduser().absolute() / name
    try:
        return _look(path, purpose)
    except SaveError as error:
        return FolderFound(path=str(path), words=str(error), is_possible=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return FolderFound(
            path=str(path), words=f"No such folder can be made here: {reason}.", is_possible=False
        )


def _wrong_in(name: str, place: str) -> str:
    """Why no folder can be named so anywhere; empty where one can."""
    if not name:
        return "Give the folder a name."
    if name in (".", "..") or "/" in name or "\\" in name:
        return "A name cannot contain / or \\, nor be . or .. alone."
    odd = next((mark for mark in name + place if ord(mark) < 32 or "\ud800" <= mark <= "\udfff"), "")
    return f"The name of a folder cannot contain the character U+{ord(odd):04X}." if odd else ""


def existing_folder(typed: str) -> Path:
    """The folder that was typed, or the nearest above it that is there; else the home folder."""
    try:
        path = Path(typed.strip() or ".").expanduser().absolute()
        return next((folder for folder in (path, *path.parents) if folder.is_dir()), Path.home())
    except (OSError, ValueError, RuntimeError):
        return Path.home()


def place_problem(folder: str, purpose: Purpose) -> str:
    """Why nothing can be written into a folder that is typed as one text; empty where it can."""
    path = Path(folder.strip())
    found = find_folder(str(path.parent), path.name, purpose)
    return "" if found.is_possible else found.words


def _look(path: Path, purpose: Purpose) -> FolderFound:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        _refuse_closed(path)
        return FolderFound(path=str(path), words=f"A new folder: {path}")
    marks, words = _GOES_ON[purpose]
    if any(next(path.glob(mark), None) for mark in marks):
        return FolderFound(path=str(path), words=words)
    is_empty = path.is_dir() and next(path.iterdir(), None) is None
    if not marks or is_empty:
        refuse_foreign_content(path)
        words = "It is empty." if is_empty else "It contains a model saved by AttnScope. Saving replaces it."
        return FolderFound(path=str(path), words=words, is_replaced=not is_empty)
    return FolderFound(
        path=str(path),
        words=f"{path.name} exists already and contains no AttnScope run. Choose another name.",
        is_possible=False,
    )


def _refuse_closed(path: Path) -> None:
    """Raise SaveError where no folder can be made: the nearest that exists is a file, or closed."""
    long = next((part for part in path.parts if len(os.fsencode(part)) > _MAX_NAME_BYTES), "")
    if long:
        raise SaveError(
            f"The name {long[:40]}… is too long.",
            expected=f"at most {_MAX_NAME_BYTES} bytes",
            action="Give a shorter one.",
        )
    nearest = next(parent for parent in path.parents if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise SaveError(
            f"No folder can be made in {nearest}.",
            expected="a folder that may be written to",
            action="Choose another folder.",
        )
