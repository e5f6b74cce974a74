"""The run folder: the files of a run, and reading them back however the run ended.

recipe.toml                what is trained, every value written out
metrics.jsonl              one event a line, numbered by attempt (a resume begins a new one)
probes/<step>.safetensors  the traces of the watched sentences, of early steps without a checkpoint too
checkpoints/<step>/        a model folder each, the last two with the state that a resume needs

They are written in this order, so that a checkpoint, once it is there, has everything before it.

One writer for each run folder: who holds it, and how a dead holder is told from a live one.

The file run.lock names the process, its computer and since when; the operating system's own lock on it
falls away with the process, however that ends. On another computer that shares the folder only the name
can be seen, so that one is believed.

The curves of a run once more, in the event files that TensorBoard reads.

The format is small and has been stable for years, so it is written here and needs no package: a file is
a row of records, each `length, crc, bytes, crc`, and each holds one `Event` of TensorFlow's event.proto:

    Event    1 wall_time (double)   2 step (int)   3 file_version (text)   5 summary   7 session_log
    Summary  1 value, repeated: 1 tag (text), 2 simple_value (float), 9 metadata
             metadata: 3 description (text), with the first value of a tag: what losses are in
    crc      CRC-32C (Castagnoli), turned right by 15 bits, plus 0xa282ead8 (TensorFlow's record_writer)
"""

import contextlib
import json
import math
import os
import platform
import stat
import struct
import sys
import time
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from attnscope.codec import Caps, Codec
from attnscope.counting import age_words, plural
from attnscope.errors import LoadError, SaveError, UserError
from attnscope.files import replace_file
from attnscope.outside import open_outside, open_to_append, parse_object, read_outside, read_toml_text
from attnscope.records.runs import (
    Evaluated,
    Finished,
    RunWriter,
    Saved,
    SaveFailed,
    Started,
    Step,
    TrainingEvent,
    Watched,
    loss_unit,
)
from attnscope.training.parts import mended_recipe

_MAX_METRICS_BYTES = 2**30
_EVENTS: dict[str, type[Any]] = {
    "started": Started,
    "step": Step,
    "evaluated": Evaluated,
    "saved": Saved,
    "watched": Watched,
    "save-failed": SaveFailed,
    "finished": Finished,
}
_CODEC = Codec(odd="null", caps=Caps(whole=2**53, number=math.inf))
"""Upper limit of counts and measurements."""
_NAMES = {kind: name for name, kind in _EVENTS.items()}


def in_order(lines: Iterable[tuple[int, TrainingEvent]]) -> tuple[TrainingEvent, ...]:
    """Events of all attempts in order, by attempt and step, whatever their order in the file.

    Where an attempt went on beyond the step that the next one resumed from, the next one counts.
    """
    attempts: dict[int, list[TrainingEvent]] = {}
    for attempt, event in lines:
        attempts.setdefault(attempt, []).append(event)
    story: list[TrainingEvent] = []
    for _, events in sorted(attempts.items()):
        begun = min((e.step for e in events if isinstance(e, Started)), default=0)
        story = [event for event in story if event.step <= begun]
        story += sorted(events, key=_place)
    return tuple(story)


def _place(event: TrainingEvent) -> tuple[int, int]:
    return event.step, list(_NAMES).index(type(event))


class Metrics:
    """Appends events to metrics.jsonl; unwritten ones are kept and retried.

    A tail that an earlier crash cut short is moved to metrics.jsonl.corrupt first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempt = 1
        self._waiting: list[str] = []

    def open(self) -> None:
        """Repair the file and begin a new attempt; raises SaveError if the folder cannot be written."""
        attempt = mend_metrics(self.path)
        self.attempt = attempt + 1

    def add(self, event: TrainingEvent) -> None:
        """Add one event; it reaches the disk with the next `flush`."""
        self._waiting.append(line_from_event(self.attempt, event))

    def flush(self) -> bool:
        """Write waiting events; False if the disk refuses (nothing is lost, the next flush tries again)."""
        if not self._waiting:
            return True
        block = "".join(f"{line}\n" for line in self._waiting).encode()
        try:
            n_bytes = self.path.stat().st_size if self.path.exists() else 0
            try:
                with open_to_append(self.path) as stream:
                    stream.write(block)
            except OSError:
                _cut(self.path, n_bytes)
                raise
        except OSError:
            return False
        self._waiting.clear()
        return True

    def sync(self) -> None:
        """Make flushed data survive a power failure, if the disk can."""
        try:
            with self.path.open("r+b") as stream:
                os.fsync(stream.fileno())
        except OSError:
            pass


def _cut(path: Path, n_bytes: int) -> None:
    try:
        with path.open("r+b") as stream:
            stream.truncate(n_bytes)
    except OSError:
        pass


def mend_metrics(path: Path) -> int:
    """Keep the complete lines, move the rest to a .corrupt file; returns the last attempt's number."""
    if not path.exists():
        return 0
    good, bad, attempt = [], [], 0
    content = _content(path)
    for line in content.splitlines(keepends=True):
        parsed = event_from_line(line) if line.endswith(b"\n") else None
        if parsed is None:
            bad.append(line)
        else:
            good.append(line)
            attempt = max(attempt, parsed[0])
    if bad:
        corrupt = path.with_name(path.name + ".corrupt")
        earlier = _content(corrupt) if corrupt.exists() else b""
        replace_file(corrupt, earlier + b"".join(bad))
        replace_file(path, b"".join(good))
    return attempt


def open_metrics(path: Path) -> BinaryIO:
    """The events of a run, open for reading; raises LoadError."""
    return open_outside(path, expected="the metrics of a run", max_bytes=_MAX_METRICS_BYTES)


def _content(path: Path) -> bytes:
    with open_metrics(path) as stream:
        return stream.read()


def read_metric_lines(path: Path) -> tuple[list[tuple[int, TrainingEvent]], int]:
    """Attempt and event of every valid line, and the number of invalid ones; raises LoadError."""
    try:
        content = _content(path)
    except LoadError as error:
        if error.kind == "missing":
            return [], 0
        raise
    parsed = [event_from_line(line) for line in content.splitlines()]
    good = [line for line in parsed if line is not None]
    return good, len(parsed) - len(good)


def line_from_event(attempt: int, event: TrainingEvent) -> str:
    """One line of metrics.jsonl: strict JSON, with null for anything that is not a number."""
    return json.dumps({"attempt": attempt, "event": _NAMES[type(event)], **_CODEC.write(event)})


def event_from_line(line: bytes) -> tuple[int, TrainingEvent] | None:
    """Attempt and event of one line, or None if invalid."""
    try:
        values = json.loads(line, parse_constant={"NaN": None}.__getitem__)
        attempt = _CODEC.read(int, values["attempt"])
        event: TrainingEvent = _CODEC.read(_EVENTS[values["event"]], values)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return (attempt, event) if attempt >= 0 else None


LOCK_NAME = "run.lock"
_LOCK_AT = 1 << 30
"""Windows locks bytes and lets nobody read them, so the byte that is locked lies behind the text."""
_MINUTE_S = 60.0
_MAX_BYTES, _MAX_HOST = 10_000, 255
_END_OF_TIME_S = 253_402_214_400
"""The last day of the year 9999: what comes after has no date."""


class RunLock:
    """The exclusive right to write to a run folder, until `release`, or until this object is deleted.

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
            raise _unwritable(folder, error) from error
        held_by = read_writer(folder)
        if descriptor is None or (held_by is not None and not held_by.is_here):
            if descriptor is not None:
                os.close(descriptor)
            raise _refusal(folder, held_by)
        try:
            _write_holder(descriptor)
        except OSError as error:
            _release(descriptor, self._path, made)
            raise _unwritable(folder, error) from error
        self._release = weakref.finalize(self, _release, descriptor, self._path, made)

    def release(self) -> None:
        """Release the lock; a second call has no effect."""
        self._release()


def read_writer(folder: Path) -> RunWriter | None:
    """The process that writes a run folder, None if there is none or it has ended. Disturbs nobody."""
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


def _unwritable(folder: Path, error: OSError | ValueError) -> SaveError:
    return SaveError(
        f"The run folder {str(folder)[:200]} cannot be written: {getattr(error, 'strerror', None) or error}.",
        action="Choose another folder, for instance in your own home.",
    )


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
    """An open file locked by this process; None if another has it."""
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
    """Paths in a run folder; nothing is read or written."""

    folder: Path

    @property
    def recipe(self) -> Path:
        """The recipe as trained."""
        return self.folder / "recipe.toml"

    @property
    def metrics(self) -> Path:
        """The events, one a line."""
        return self.folder / "metrics.jsonl"

    @property
    def old_state(self) -> Path:
        """Path at which versions 0.1 to 0.7 kept the state for a resume."""
        return self.folder / "state.safetensors"

    @property
    def holds_run(self) -> bool:
        """Whether it contains a run."""
        return self.recipe.is_file()

    def leavings(self) -> str:
        """Remains of a run besides its recipe, in words; empty if the folder has none."""
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
        """Step and file of every stored record of the watched sentences, in order of their steps."""
        return _by_step((self.folder / "probes").glob("*.safetensors"))


def _by_step(entries: Iterable[Path]) -> tuple[tuple[int, Path], ...]:
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
    """Read a run folder, even while another process writes it. Raises LoadError."""
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
    """Create the run folder and its inner folders; raises SaveError with the reason if that fails."""
    try:
        for inner in ("checkpoints", "probes"):
            (folder / inner).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveError(
            f"The run folder {folder} cannot be made: {error.strerror or error}.",
            action="Choose another folder, for instance in your own home.",
        ) from error


_POLYNOMIAL = 0x82F63B78
_VERSION = b"brain.Event:2"


@lru_cache(maxsize=1)
def _crc_table() -> tuple[int, ...]:
    rows = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        rows.append(value)
    return tuple(rows)


class TensorBoardMirror:
    """Writes the numbers of events to an event file; failed writes are retried.

    A run that goes on begins a new file and says from which step, so that TensorBoard drops what an earlier
    attempt wrote about later ones.
    """

    def __init__(self, run_folder: Path) -> None:
        place = f"{platform.node() or 'here'}.{os.getpid()}.{time.monotonic_ns()}"
        self.path = run_folder / "tensorboard" / f"events.out.tfevents.{int(time.time())}.{place}"
        self._waiting = record_of(_double(1, time.time()) + _text(3, _VERSION))
        self._n_bytes = 0
        self._units: dict[str, str] = {}

    def add(self, event: TrainingEvent) -> None:
        """Add one event; it reaches the disk with the next `flush`."""
        head = _double(1, time.time()) + _proto_number(2, event.step)
        if isinstance(event, Started):
            started = _text(7, _proto_number(1, 1))  # SessionLog.START: what was told of later steps is void
            self._waiting += record_of(head + started) if event.step else b""
            unit = loss_unit([event.objective])
            self._units = {"loss/train": unit, "loss/validation": unit}
            return
        values = _values_of(event)
        if values:
            summary = b"".join(_text(1, self._value(tag, number)) for tag, number in values)
            self._waiting += record_of(head + _text(5, summary))

    def _value(self, tag: str, number: float) -> bytes:
        unit = self._units.pop(tag, "")
        about = _text(9, _text(3, unit.encode())) if unit else b""
        return _text(1, tag.encode()) + _float(2, number) + about

    def flush(self) -> bool:
        """Write waiting events; False if the disk refuses."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open_to_append(self.path) as stream:
                stream.write(self._waiting)
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(self.path, self._n_bytes)  # half a record would hide all that follows
            return False
        self._n_bytes += len(self._waiting)
        self._waiting = b""
        return True


def _values_of(event: TrainingEvent) -> tuple[tuple[str, float], ...]:
    match event:
        case Step():
            found: tuple[tuple[str, float | None], ...] = (
                ("loss/train", event.loss),
                ("learning_rate", event.learning_rate),
                ("gradient_norm", event.gradient_norm),
                ("tokens_per_s", event.tokens_per_s),
                ("open_heads", event.open_heads),
                ("batch_texts", event.n_texts),
                ("text_tokens", event.text_tokens),
            )
        case Evaluated():
            found = (
                ("loss/validation", event.loss),
                ("accuracy/validation", event.accuracy),
                ("loss/next_sentence", event.next_sentence_loss),
                ("accuracy/next_sentence", event.next_sentence_accuracy),
                *((f"span/{head}", z) for head, z in event.spans or ()),
            )
        case _:
            found = ()
    return tuple((tag, number) for tag, number in found if number is not None)


def record_of(content: bytes) -> bytes:
    """One record: length, its checksum, the content, its checksum; all little-endian."""
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked_crc(length)) + content + struct.pack("<I", masked_crc(content))


def masked_crc(content: bytes) -> int:
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _proto_number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _text(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _float(field: int, value: float) -> bytes:
    try:
        packed = struct.pack("<f", value)
    except OverflowError:  # beyond float32: as far as it goes
        packed = struct.pack("<f", math.copysign(math.inf, value))
    return _varint(field << 3 | 5) + packed
