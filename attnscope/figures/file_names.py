"""The names of figure files: formats by their endings, safe names. No Qt."""

import os
import re
import unicodedata
from pathlib import Path
from typing import Literal

from attnscope.errors import SaveError, UserError

Format = Literal["svg", "pdf", "png", "csv", "npz", "html", "figure"]
FORMATS: tuple[Format, ...] = ("svg", "pdf", "png", "csv", "npz", "html", "figure")
ENDINGS: dict[Format, str] = {name: f".{name}" for name in FORMATS} | {"figure": ".figure.json"}
_MAX_NAME_BYTES = 255
_RESERVED = {"con", "prn", "aux", "nul", *(f"com{i}" for i in range(10)), *(f"lpt{i}" for i in range(10))}


def target_of(path: Path | str) -> tuple[Path, Format]:
    """The path that `save` will write and its format: `.svg` is added where there is no extension."""
    target = Path(path)
    if target.name in ("", "-") or "\0" in str(path) or len(os.fsencode(target.name)) > _MAX_NAME_BYTES:
        raise UserError(
            f"'{str(path)[:80]}' is not a file name.", expected="a name such as figure.svg, or /dev/stdout"
        )
    if not target.suffix:
        return _without_extension(target), "svg"
    name = target.name.lower()
    for format, ending in ENDINGS.items():
        if name.endswith(ending):
            return target, format
    raise unknown_format(target.suffix[1:].lower())


def is_stream(path: Path) -> bool:
    """Whether the path names a pipe or a device, which is written to directly."""
    return path.parent == Path("/dev") or (os.path.exists(path) and not os.path.isfile(path))


def _without_extension(path: Path) -> Path:
    """Default format for file names without an extension."""
    if os.path.isdir(path):
        raise SaveError(
            f"{path} is a folder.",
            expected="the name of a file, such as figure.svg",
            action=f"Choose for instance {path / 'figure.svg'}; nothing was written.",
        )
    return path if is_stream(path) else path.with_name(path.name + ".svg")


def checked_target(path: Path | str) -> tuple[Path, Format]:
    """As `target_of`; raises SaveError for a missing folder, and for the name of a folder."""
    if str(path).endswith(("/", os.sep)):
        raise SaveError(
            f"'{path}' is a folder, not the name of a file.",
            expected="a file to write the figure into",
            action=f"Leave out the {str(path)[-1]} at its end; nothing was written.",
        )
    target, format = target_of(path)
    if not os.path.isdir(target.parent):
        raise SaveError(
            f"The folder {target.parent} does not exist.",
            expected="a folder to write the figure into",
            action="Choose another folder; nothing was written.",
        )
    return target, format


def slug_of(words: str) -> str:
    """A safe part of a file name in plain letters; a hash distinguishes names that lost letters."""
    letters = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9]+", "-", letters).strip("-")[:80].lower() or "figure"
    if slug in _RESERVED or slug != re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-"):
        import hashlib

        slug = f"{slug[:70].strip('-')}-{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:6]}"
    return slug


def unknown_format(extension: str) -> UserError:
    return UserError(
        f"'.{extension}' is not a format for figures.",
        expected=", ".join(ENDINGS.values()),
        action="Change the extension, or leave it out for .svg.",
    )
