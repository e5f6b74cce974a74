"""Writes files so that a reader finds the old content or the new, never a mixture.

Every save in the program goes through `replace_file` or `replace_folder`.
A pipe, a device and the program's own output are written into.
"""

import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TextIO

from attnscope.errors import LoadError, SaveError
from attnscope.outside import as_object, open_outside, read_json

TEMPORARY_PREFIX = ".attnscope-tmp-"
_ASIDE_PREFIX = f"{TEMPORARY_PREFIX}old-"
MANIFEST_NAME = "manifest.json"
_MAX_MANIFEST_BYTES, _MAX_NAME = 10_000_000, 255
_STALE_AFTER_S = 3600.0
_IN_USE = (5, 32)
"""Windows' ERROR_ACCESS_DENIED and ERROR_SHARING_VIOLATION."""
_PAUSES_S = (0.01, 0.05, 0.2, 0.3, 0.5)


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` to `path`, replacing the old content in one step.

    The content is written beside the file, flushed to the disk, read back and compared, and only then
    moved into place. Symbolic links are followed, rights and owner are kept; a file that has other names
    (hard links) or an owner that cannot be kept is written over instead of replaced. A pipe, a device and
    the program's own output are written into. Raises SaveError with the reason; the old file is then
    untouched.
    """
    try:
        descriptor = open_stream(path)
        if descriptor is None:
            _replace(Path(os.path.realpath(path)), content)
        else:
            with open(descriptor, "wb") as stream:
                stream.write(content)
    except (OSError, ValueError) as error:
        raise save_error(path, error) from error


def _replace(path: Path, content: bytes) -> None:
    """Put `content` in place of a regular file, or of none."""
    old = path.stat() if path.exists() else None
    if old is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    temporary = path.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{time.monotonic_ns()}-{path.name[-40:]}"
    try:
        with open(temporary, "xb", opener=None if old is None else _open_private) as stream:
            _write_through(stream, content)
        if temporary.stat().st_size != len(content) or temporary.read_bytes() != content:
            raise OSError("what was read back differs from what was written")
        if old is None or (old.st_nlink == 1 and _keeps_rights(path, temporary)):
            _move(temporary, path)
            _sync_folder(path.parent)
        else:
            _write_over(path, content)
    finally:
        _remove_quietly(temporary)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _keeps_rights(old: Path, new: Path) -> bool:
    """Give `new` the owner, rights and attributes of `old`; False if the owner cannot be set."""
    status = old.stat()
    try:
        if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (new.stat().st_uid, new.stat().st_gid):
            os.chown(new, status.st_uid, status.st_gid)
    except OSError:
        return False
    shutil.copystat(old, new)
    os.utime(new)
    return True


def _write_over(path: Path, content: bytes) -> None:
    """Write into the file itself, first extending it, so that a full disk leaves it unchanged."""
    with path.open("r+b") as stream:
        n_old = os.fstat(stream.fileno()).st_size
        try:
            stream.seek(n_old)
            _write_through(stream, content[n_old:])
        except OSError:
            stream.truncate(n_old)
            raise
        stream.seek(0)
        _write_through(stream, content[:n_old])
        stream.truncate(len(content))


def _write_through(stream: BinaryIO, content: bytes) -> None:
    stream.write(content)
    stream.flush()
    os.fsync(stream.fileno())


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a new folder, add a manifest of hashes, and move it to `folder` in one step.

    An existing `folder` is moved aside first and removed after, its rights and those of its files kept; one
    that holds anything but what was saved in this way is refused. A symbolic link is followed. Raises
    SaveError with the reason; the old folder is then in its place.
    """
    refuse_foreign_content(folder)
    folder = Path(os.path.realpath(folder))
    temporary = folder.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir(0o700 if folder.exists() else 0o777)
        fill(temporary)
        manifest = build_manifest(temporary)
        replace_file(temporary / MANIFEST_NAME, json.dumps(manifest, indent=1).encode())
        _sync_folder(temporary)
        if folder.exists():
            for new in (temporary, *temporary.iterdir()):
                old = folder / new.relative_to(temporary)
                if old.is_file() or old == folder:
                    _keeps_rights(old, new)
        _swap(temporary, folder)
    except SaveError as error:  # of a file that was to be in it
        if not isinstance(error.__cause__, OSError):
            raise
        raise save_error(folder, error.__cause__) from error
    except (OSError, ValueError) as error:
        raise save_error(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_foreign_content(folder: Path) -> None:
    """Raise SaveError if writing `folder` would delete content that was not saved here."""
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise SaveError(
                f"{folder} is a file.",
                expected="a new folder, or one that AttnScope saved",
                action="Choose another name; nothing was written.",
            )
        entries = {entry.name for entry in folder.iterdir()}
        manifest = folder / MANIFEST_NAME
        saved = read_manifest(manifest) if manifest.exists() else {}
    except OSError as error:
        raise save_error(folder, error) from error
    except LoadError:
        saved = {}
    foreign = sorted(entries - {MANIFEST_NAME, *saved})
    if foreign:
        raise SaveError(
            f"{folder} contains something that AttnScope did not save: {foreign[0][:80]!r}"
            f"{f' and {len(foreign) - 1} more' if len(foreign) > 1 else ''}.",
            expected="a new or empty folder, or one that AttnScope saved",
            action="Choose another folder; nothing was written.",
        )


def build_manifest(folder: Path) -> dict[str, dict[str, object]]:
    """Size in bytes and SHA-256 of every file in `folder`, by name."""
    return {
        file.name: {"n_bytes": file.stat().st_size, "sha256": sha256_of(file)}
        for file in sorted(folder.iterdir())
        if file.is_file() and file.name != MANIFEST_NAME
    }


def check_manifest(folder: Path, *, leaving_out: frozenset[str] = frozenset()) -> None:
    """Compare a folder with its manifest; a folder without one passes.

    Raises LoadError of kind `changed` when a file differs from what was saved.
    """
    for name, (n_bytes, sha256) in manifest_entries(folder).items():
        if name not in leaving_out:
            _check_entry(folder, name, n_bytes, sha256)


def check_listed(folder: Path, name: str) -> None:
    """Compare one file with the folder's manifest; raises LoadError if it differs or is not listed."""
    entry = manifest_entries(folder).get(name)
    if entry is None:
        raise LoadError(
            f"The file {folder / name} is not in the manifest.",
            kind="manifest",
            expected="the manifest that was saved with it",
            action="Restore the folder from a copy.",
        )
    _check_entry(folder, name, *entry)


def drop_listed(folder: Path, name: str) -> None:
    """Remove one file of a saved folder, which stays consistent for readers. Raises SaveError.

    Does nothing where there is no such file; one that a killed process left unlisted goes too.
    """
    try:
        entries = read_manifest(folder / MANIFEST_NAME)
        if entries.pop(name, None) is not None:
            replace_file(folder / MANIFEST_NAME, json.dumps(entries, indent=1).encode())
        (folder / name).unlink(missing_ok=True)
    except (OSError, LoadError) as error:
        raise save_error(folder / name, error) from error


def manifest_entries(folder: Path) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of each file by name, as saved; empty without a manifest.

    Raises LoadError.
    """
    path = folder / MANIFEST_NAME
    if not path.exists():
        return {}
    try:
        return {name: _entry(value) for name, value in read_manifest(path).items()}
    except (LoadError, ValueError) as error:
        raise LoadError(
            f"The manifest {path} cannot be read.",
            kind="manifest",
            expected="the file that was saved with the folder",
            action="Restore the folder from a copy, or delete manifest.json to open it unchecked.",
        ) from error


def read_manifest(path: Path) -> dict[str, object]:
    """Entries of a manifest, by file; raises LoadError."""
    return as_object(read_json(path, max_bytes=_MAX_MANIFEST_BYTES), what=str(path))


def _entry(value: object) -> tuple[int, str]:
    """Size and SHA-256 of one file; raises ValueError if they are invalid."""
    n_bytes, sha256 = (value.get("n_bytes"), value.get("sha256")) if isinstance(value, dict) else (0, 0)
    if not isinstance(n_bytes, int) or not 0 <= n_bytes < 2**63 or not isinstance(sha256, str):
        raise ValueError("an entry is not a size and a hash")
    return n_bytes, sha256


def _check_entry(folder: Path, name: str, n_bytes: int, sha256: str) -> None:
    file = folder / name
    if Path(name).name != name or len(name) > _MAX_NAME or not file.is_file():
        raise LoadError(
            f"The file {name[:80]!r} is missing from {folder}.",
            kind="missing",
            expected=f"the {n_bytes} bytes that were saved",
            action="Restore the folder from a copy.",
        )
    found = file.stat().st_size
    if found != n_bytes:
        raise LoadError(
            f"The file {file} is {'cut short' if found < n_bytes else 'too long'}: it has {found} bytes.",
            kind="truncated" if found < n_bytes else "changed",
            expected=f"{n_bytes} bytes",
            action="Restore the folder from a copy.",
        )
    if sha256_of(file) != sha256:
        raise LoadError(
            f"The file {file} has changed since it was saved.",
            kind="changed",
            expected=f"SHA-256 {sha256[:12]}…",
            action="Restore the folder from a copy, or delete manifest.json to open it unchecked.",
        )


def sha256_of(file: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with open_outside(file, expected="a file to check") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sweep_temporary(folder: Path, *, stale_after_s: float = _STALE_AFTER_S) -> int:
    """Remove temporary files over an hour old that killed saves left; returns their number.

    Whoever alone may write there gives 0 seconds.
    """
    n_removed = 0
    if not folder.is_dir():
        return 0
    for entry in folder.glob(f"{TEMPORARY_PREFIX}*"):
        try:
            if time.time() - entry.stat().st_mtime < stale_after_s:
                continue
        except OSError:
            continue
        if entry.name.startswith(_ASIDE_PREFIX) and recover_folder(
            folder / entry.name.removeprefix(_ASIDE_PREFIX)
        ):
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            _remove_quietly(entry)
        n_removed += 1
    return n_removed


def save_error(path: Path, error: Exception) -> SaveError:
    """The SaveError that explains why `path` could not be written."""
    reason = getattr(error, "strerror", None) or str(error)
    return SaveError(
        f"{path} could not be written: {reason}.",
        action="Choose another folder, or free some space, then save again; the old file is untouched.",
    )


def recover_folder(folder: Path) -> bool:
    """Restore the old `folder` if a save was killed between moving it aside and replacing it.

    Returns whether there was something to put back. Call before opening a folder.
    """
    aside = _aside(folder)
    if folder.exists() or not aside.is_dir():
        return False
    _move(aside, folder)
    return True


def _aside(folder: Path) -> Path:
    return folder.parent / f"{_ASIDE_PREFIX}{folder.name}"


def _swap(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        _move(temporary, folder)
    else:
        aside = _aside(folder)
        shutil.rmtree(aside, ignore_errors=True)
        _move(folder, aside)
        try:
            _move(temporary, folder)
        except OSError:
            _move(aside, folder)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    _sync_folder(folder.parent)


def _move(source: Path, target: Path) -> None:
    """`os.replace`, retried for a second if another program is reading the target or its content.

    Windows lets nobody move what is open, be it for the moment in which a virus scanner looks at it.
    """
    for pause_s in _PAUSES_S:
        try:
            os.replace(source, target)
            return
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _IN_USE:
                raise
            time.sleep(pause_s)
    os.replace(source, target)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_quietly(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass


def open_stream(path: Path) -> int | None:
    """A descriptor to write to if `path` is not a regular file, or is the program's own output.

    Raises OSError for what cannot be written into.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    own = _own_output(status)
    if own is not None:
        own.flush()
        return os.dup(own.fileno())
    if stat.S_ISREG(status.st_mode):
        return None
    if stat.S_ISDIR(status.st_mode):
        raise OSError("it is a folder")
    if not (stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)):
        raise OSError("it is not a regular file")
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError("nothing reads from this pipe") from error
        raise
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(descriptor, True)
    return descriptor


def is_own_output(path: Path) -> bool:
    """Whether a file of that name is the program's own output, as `/dev/stdout` is."""
    try:
        return _own_output(path.stat()) is not None
    except (OSError, ValueError):
        return False


def _own_output(status: os.stat_result) -> TextIO | None:
    """Standard output or standard error, if it is the file with this status."""
    for own in (sys.__stdout__, sys.__stderr__):
        try:
            if own is not None and os.path.samestat(os.fstat(own.fileno()), status):
                return own
        except (OSError, ValueError):  # it is closed
            continue
    return None
