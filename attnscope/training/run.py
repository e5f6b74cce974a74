"""The run folder: what a run leaves on disk, and reading it back however the run ended.

recipe.toml                what is trained, every value written out
metrics.jsonl              one event a line, numbered by attempt (a resume begins a new one)
probes/<step>.safetensors  the traces of the watched sentences, of early steps without a checkpoint too
checkpoints/<step>/        a model folder each, the last two with the state that a resume needs

They are written in this order, so that a checkpoint, once it is there, has everything before it.

One writer for each run folder: who holds it, and how a dead holder is told from a live one.

The file run.lock names the process, its computer and since when; the operating system's own lock on it
falls away with the process, however that ends. On another computer that shares the folder only the name
can be seen, so that one is believed.
"""

import json
import os
import platform
import stat
import sys
import time
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from attnscope.counting import age_words, plural
from attnscope.errors import LoadError, SaveError, UserError
from attnscope.outside import read_outside
from attnscope.records.runs import RunWriter
from attnscope.records.training import TrainingEvent
from attnscope.strict_json import parse_object
from attnscope.strict_toml import read_toml_text
from attnscope.training.metrics import in_order, read_metric_lines
from attnscope.training.old_recipes import mended_recipe

LOCK_NAME = "run.lock"
_LOCK_AT = 1 << 30
"""Windows locks bytes and lets nobody read them, so the byte that is locked lies behind the text."""
_MINUTE_S = 60.0
_MAX_BYTES, _MAX_HOST = 10_000, 255
_END_OF_TIME_S = 253_402_214_400
"""The last day of the year 9999: what comes after has no date."""


class RunLock:
    """The right to write into a run folder, held until `release`, or until this object is gone.

    Makes the folder when it is missing. Raises UserError naming the process that holds it, and SaveError
    when the folder cannot be written. The lock of a process that has ended is taken over.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        try:
            made = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = _open_locked(self._path)
        except (OSError, ValueError) as error:
            raise SaveError(
                f"The run folder {str(folder)[:200]} cannot be written: "
                f"{getattr(error, 'strerror', None) or error}.",
                action="Choose another folder, for instance in your own home.",
            ) from error
        held_by = read_writer(folder)
        if descriptor is None or (held_by is not None and not held_by.is_here):
            if descriptor is not None:
                os.close(descriptor)
            raise _refusal(folder, held_by)
        _write_holder(descriptor)
        self._release = weakref.finalize(self, _release, descriptor, self._path, made)

    def release(self) -> None:
        """Let others write; does nothing the second time."""
        self._release()


def read_writer(folder: Path) -> RunWriter | None:
    """The process that writes a run folder, None when there is none or it has ended. Disturbs nobody."""
    try:
        path = folder / LOCK_NAME
        values = parse_object(read_outside(path, expected="a lock", max_bytes=_MAX_BYTES), what=str(path))
        pid, since = _number(values["pid"], 2**31 - 1), _number(values["since"], _END_OF_TIME_S)
        host = str(values["host"])[:_MAX_HOST]
    except (LoadError, ValueError, KeyError):
        return None
    is_here = host == platform.node()
    if is_here and not _is_alive(int(pid)):
        return None
    return RunWriter(pid=int(pid), host=host, since=since, is_here=is_here, silent_s=_silent_s(folder))


def _number(value: object, most: float) -> float:
    """A number of a lock, from 0 to `most`; raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"{str(value)[:40]!r} is not a number from 0 to {most:g}")
    return float(value)


def _refusal(folder: Path, writer: RunWriter | None) -> UserError:
    if writer is None:  # held, but its text is not there yet or no longer
        return UserError(
            f"Another process is about to write the run in {folder}.",
            expected="one process for each run folder",
            action="Try again in a moment, or choose another folder.",
        )
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(writer.since))
    last = f"; it last wrote {age_words(writer.silent_s)}" if writer.silent_s >= _MINUTE_S else ""
    if writer.pid == os.getpid() and writer.is_here:
        action = "Stop it first; it is saved and can be resumed."
    elif writer.is_here:
        action = "Watch it, or wait until it ends, or stop it first, or choose another folder."
    else:
        action = (
            f"Wait until it ends, or stop it there. If it is no longer running, delete {folder / LOCK_NAME} "
            "and start again."
        )
    return UserError(
        f"The run in {folder} is being written by {writer.words} since {since}{last}.",
        expected="one process for each run folder",
        action=action,
    )


def _open_locked(path: Path) -> int | None:
    """An open file that this process alone has locked; None when another one has."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o644)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"its {LOCK_NAME} is not a regular file")
        try:
            is_ours = _lock(descriptor)
        except OSError:  # a file system without locks: the text alone tells
            is_ours = read_writer(path.parent) is None
        if not is_ours:
            os.close(descriptor)
            return None
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)  # it was removed by its holder in the meantime


def _write_holder(descriptor: int) -> None:
    holder = {"pid": os.getpid(), "host": platform.node(), "since": time.time()}
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, json.dumps(holder).encode())


def _release(descriptor: int, path: Path, made_folder: bool) -> None:
    try:
        if os.name == "posix":
            path.unlink(missing_ok=True)  # while it is still locked: nobody else can have it
        os.close(descriptor)
        if os.name != "posix":
            path.unlink(missing_ok=True)
        if made_folder:
            path.parent.rmdir()  # only when nothing came of the run
    except OSError:
        pass


def _silent_s(folder: Path) -> float:
    """Seconds since the folder's metrics or its lock were last written."""
    times = []
    for name in ("metrics.jsonl", LOCK_NAME):
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:
            continue
    return max(0.0, time.time() - max(times, default=time.time()))


if sys.platform == "win32":
    import ctypes
    import msvcrt

    _QUERY, _STILL_ACTIVE = 0x1000, 259

    def _lock(descriptor: int) -> bool:
        os.lseek(descriptor, _LOCK_AT, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _is_alive(pid: int) -> bool:
        handle = ctypes.windll.kernel32.OpenProcess(_QUERY, False, pid)
        if not handle:
            return False
        code = ctypes.c_ulong()
        ctypes.windll.kernel32.GetExitCodeProcess(handle, ctypes.byref(code))
        ctypes.windll.kernel32.CloseHandle(handle)
        return code.value == _STILL_ACTIVE

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_alive(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where things are in a run folder; nothing is read or written."""

    folder: Path

    @property
    def recipe(self) -> Path:
        """The recipe as it was trained."""
        return self.folder / "recipe.toml"

    @property
    def metrics(self) -> Path:
        """The events, one a line."""
        return self.folder / "metrics.jsonl"

    @property
    def old_state(self) -> Path:
        """Where the versions 0.1 to 0.7 kept what a resume needs."""
        return self.folder / "state.safetensors"

    @property
    def holds_run(self) -> bool:
        """Whether a run was begun here."""
        return self.recipe.is_file()

    def leavings(self) -> str:
        """What of a run is there beside its recipe, in words; empty in a folder without any."""
        steps = [step for step, _ in self.checkpoints()]
        checkpoints = f"{plural(len(steps), 'checkpoint')} to step {steps[-1]:,}" if steps else ""
        probes = "probes" if any((self.folder / "probes").glob("*.safetensors")) else ""
        files = [path.name for path in (self.metrics, self.old_state) if path.exists()]
        return ", ".join(filter(None, (checkpoints, probes, *files)))

    def checkpoint(self, step: int) -> Path:
        """The model folder of `step`."""
        return self.folder / "checkpoints" / str(step)

    def probe(self, step: int) -> Path:
        """The traces of the watched sentences at `step`."""
        return self.folder / "probes" / f"{step}.safetensors"

    def checkpoints(self) -> tuple[tuple[int, Path], ...]:
        """Step and folder of every checkpoint, in order of their steps."""
        return _by_step(entry for entry in (self.folder / "checkpoints").glob("*") if entry.is_dir())

    def probes(self) -> tuple[tuple[int, Path], ...]:
        """Step and file of every kept look at the watched sentences, in order of their steps."""
        return _by_step((self.folder / "probes").glob("*.safetensors"))


def _by_step(entries: Iterable[Path]) -> tuple[tuple[int, Path], ...]:
    """What is named after a step, with that step."""
    named = ((entry.name.removesuffix(".safetensors"), entry) for entry in entries)
    return tuple(sorted((int(name), entry) for name, entry in named if name.isascii() and name.isdigit()))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run folder's content; `n_bad_lines` lines of its metrics could not be read."""

    folder: Path
    recipe: str
    events: tuple[TrainingEvent, ...]
    checkpoints: tuple[tuple[int, Path], ...]
    probes: tuple[tuple[int, Path], ...] = ()
    n_bad_lines: int = 0


def read_run(folder: Path) -> RunRecord:
    """Read a run folder, also one that is being written by another process. Raises LoadError."""
    paths = RunFolder(folder)
    try:
        recipe, _ = mended_recipe(read_toml_text(paths.recipe))
    except LoadError as error:
        raise LoadError(
            f"{folder} holds no run that can be read: {error.happened}",
            kind="run",
            expected="a folder with recipe.toml, as training writes it",
            action="Choose the folder that was given to the training.",
        ) from error
    lines, n_bad = read_metric_lines(paths.metrics)
    return RunRecord(
        folder=folder,
        recipe=recipe,
        events=in_order(lines),
        checkpoints=paths.checkpoints(),
        probes=paths.probes(),
        n_bad_lines=n_bad,
    )


def require_writable(folder: Path) -> None:
    """Make the run folder and its inner folders; raises SaveError with the reason when that fails."""
    try:
        for inner in ("checkpoints", "probes"):
            (folder / inner).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveError(
            f"The run folder {folder} cannot be made: {error.strerror or error}.",
            action="Choose another folder, for instance in your own home.",
        ) from error
