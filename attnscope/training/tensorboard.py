"""The curves of a run once more, in the event files that TensorBoard reads.

The format is small and has been stable for years, so it is written here and needs no package: a file is
a row of records, each `length, crc, bytes, crc`, and each holds one `Event` of TensorFlow's event.proto:

    Event    1 wall_time (double)   2 step (int)   3 file_version (text)   5 summary   7 session_log
    Summary  1 value, repeated: 1 tag (text), 2 simple_value (float), 9 metadata
             metadata: 3 description (text), with the first value of a tag: what losses are in
    crc      CRC-32C (Castagnoli), turned right by 15 bits, plus 0xa282ead8 (TensorFlow's record_writer)
"""

import contextlib
import math
import os
import platform
import struct
import time
from pathlib import Path

from attnscope.outside import open_to_append
from attnscope.records.runs import Evaluated, Started, Step, TrainingEvent, loss_unit

FOLDER = "tensorboard"
_POLYNOMIAL = 0x82F63B78
_VERSION = b"brain.Event:2"


def _table() -> tuple[int, ...]:
    rows = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        rows.append(value)
    return tuple(rows)


_TABLE = _table()


class TensorBoardMirror:
    """Writes the numbers of events to an event file of its own; what the disk refuses is tried again.

    A run that goes on begins a new file and says from which step, so that TensorBoard drops what an earlier
    attempt wrote about later ones.
    """

    def __init__(self, run_folder: Path) -> None:
        place = f"{platform.node() or 'here'}.{os.getpid()}.{time.monotonic_ns()}"
        self.path = run_folder / FOLDER / f"events.out.tfevents.{int(time.time())}.{place}"
        self._waiting = record_of(_double(1, time.time()) + _text(3, _VERSION))
        self._n_bytes = 0
        self._units: dict[str, str] = {}

    def add(self, event: TrainingEvent) -> None:
        """Note one event; it reaches the disk with the next `flush`."""
        head = _double(1, time.time()) + _number(2, event.step)
        if isinstance(event, Started):
            started = _text(7, _number(1, 1))  # SessionLog.START: what was told of later steps is void
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
        """Write what waits; False when the disk refuses."""
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
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
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
