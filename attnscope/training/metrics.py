"""metrics.jsonl: one event a line, numbered by attempt, readable however the writing ended."""

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from attnscope.codec import Caps, Codec
from attnscope.errors import LoadError
from attnscope.files import replace_file
from attnscope.outside import open_outside, open_to_append
from attnscope.records.training import (
    Evaluated,
    Finished,
    Saved,
    SaveFailed,
    Started,
    Step,
    TrainingEvent,
    Watched,
)

_MAX_BYTES = 2**30
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
"""What is counted or measured is no larger."""
_NAMES = {kind: name for name, kind in _EVENTS.items()}


def in_order(lines: Iterable[tuple[int, TrainingEvent]]) -> tuple[TrainingEvent, ...]:
    """Events of all attempts as one story, by attempt and step, whatever order they were written in.

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
    """Appends events to metrics.jsonl; what cannot be written now is kept and tried again.

    A tail that an earlier crash cut short is moved to metrics.jsonl.corrupt first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempt = 1
        self._waiting: list[str] = []

    def open(self) -> None:
        """Repair the file and begin a new attempt; raises SaveError when the folder cannot be written."""
        attempt = mend_metrics(self.path)
        self.attempt = attempt + 1

    def add(self, event: TrainingEvent) -> None:
        """Note one event; it reaches the disk with the next `flush`."""
        self._waiting.append(line_from_event(self.attempt, event))

    def flush(self) -> bool:
        """Write what waits; False when the disk refuses (nothing is lost, the next flush tries again)."""
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
        """Have what was flushed outlast a loss of power, where the disk can."""
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
    """Keep the whole lines, move the rest to a file ending in .corrupt; gives the last attempt's number."""
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
    return open_outside(path, expected="the metrics of a run", max_bytes=_MAX_BYTES)


def _content(path: Path) -> bytes:
    with open_metrics(path) as stream:
        return stream.read()


def read_metric_lines(path: Path) -> tuple[list[tuple[int, TrainingEvent]], int]:
    """Attempt and event of every whole line, and how many lines are none; raises LoadError."""
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
    """One line of metrics.jsonl: strict JSON, with null for what is not a number."""
    return json.dumps({"attempt": attempt, "event": _NAMES[type(event)], **_CODEC.write(event)})


def event_from_line(line: bytes) -> tuple[int, TrainingEvent] | None:
    """Attempt and event of one line, or None when it is none."""
    try:
        values = json.loads(line, parse_constant={"NaN": None}.__getitem__)
        attempt = _CODEC.read(int, values["attempt"])
        event: TrainingEvent = _CODEC.read(_EVENTS[values["event"]], values)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return (attempt, event) if attempt >= 0 else None
