"""The mirror in TensorBoard's event files, read back by a reader that shares nothing with the writer."""

import struct
from pathlib import Path

import pytest

from attnscope.records import Evaluated, Started, Step
from attnscope.training import TensorBoardMirror, masked_crc, train

Fields = list[tuple[int, object]]


def _slow_crc32c(content: bytes) -> int:
    """Bit by bit, from the definition: the remainder of division by the Castagnoli polynomial."""
    crc = 0xFFFFFFFF
    for byte in content:
        for bit in range(8):
            feedback = (crc ^ (byte >> bit)) & 1
            crc = (crc >> 1) ^ (0x82F63B78 if feedback else 0)
    return crc ^ 0xFFFFFFFF


def _unmasked(masked: int) -> int:
    rotated = (masked - 0xA282EAD8) % 2**32
    return (rotated >> 17 | rotated << 15) % 2**32


def _fields(content: bytes) -> Fields:
    found: Fields = []
    at = 0

    def whole() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(content):
        field, kind = divmod(whole(), 8)
        if kind == 0:
            found.append((field, whole()))
        else:
            size = {1: 8, 5: 4}.get(kind) or whole()
            piece, at = content[at : at + size], at + size
            found.append((field, struct.unpack({1: "<d", 5: "<f"}[kind], piece)[0] if kind != 2 else piece))
    return found


def _events(path: Path) -> list[dict[int, object]]:
    content, at, events = path.read_bytes(), 0, []
    while at < len(content):
        length = struct.unpack_from("<Q", content, at)[0]
        assert _unmasked(struct.unpack_from("<I", content, at + 8)[0]) == _slow_crc32c(content[at : at + 8])
        body = content[at + 12 : at + 12 + length]
        assert _unmasked(struct.unpack_from("<I", content, at + 12 + length)[0]) == _slow_crc32c(body)
        events.append(dict(_fields(body)))
        at += 16 + length
    return events


def _scalars(event: dict[int, object]) -> dict[str, float]:
    summary = event[5]
    assert isinstance(summary, bytes)
    values = [dict(_fields(v)) for _, v in _fields(summary) if isinstance(v, bytes)]
    return {v[1].decode(): v[2] for v in values}  # type: ignore[attr-defined,misc]


def test_that_the_checksum_is_that_of_the_standard() -> None:
    assert _slow_crc32c(b"123456789") == 0xE3069283  # RFC 3720, appendix B.4 gives the same polynomial
    assert _unmasked(masked_crc(b"123456789")) == 0xE3069283


@pytest.mark.slow
def test_that_every_number_of_a_run_is_in_its_event_file(tiny_recipe: str, tmp_path: Path) -> None:
    told = list(train(tiny_recipe, tmp_path / "run", "cpu", {"training.tensorboard": "true"}))
    (path,) = (tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*")
    first, *rest = _events(path)
    assert first[3] == b"brain.Event:2"
    steps = [e for e in told if isinstance(e, Step | Evaluated)]
    assert [event[2] for event in rest] == [e.step for e in steps]
    for event, expected in zip(rest, steps, strict=True):
        scalars = _scalars(event)
        if isinstance(expected, Step):
            assert scalars["loss/train"] == pytest.approx(expected.loss, rel=1e-7)
            assert scalars["learning_rate"] == pytest.approx(expected.learning_rate, rel=1e-6)
        else:
            assert scalars["accuracy/validation"] == pytest.approx(expected.accuracy, rel=1e-6)


def test_that_a_run_that_goes_on_says_from_where_and_an_infinite_loss_is_kept(tmp_path: Path) -> None:
    mirror = TensorBoardMirror(tmp_path)
    mirror.add(Started(folder="", step=300, n_steps=400, n_parameters=1, device="cpu"))
    mirror.add(Step(step=301, loss=1e300, learning_rate=1.0, gradient_norm=1.0, tokens_per_s=1.0))
    assert mirror.flush()
    _, started, step = _events(mirror.path)
    assert started[2] == 300
    assert started[7] == b"\x08\x01"
    assert _scalars(step)["loss/train"] == float("inf")


def test_that_open_heads_and_next_sentences_are_there_where_they_are_learned(tmp_path: Path) -> None:
    mirror = TensorBoardMirror(tmp_path)
    rates = {"learning_rate": 0.5, "gradient_norm": 1.0, "tokens_per_s": 8.0}
    mirror.add(Step(step=1, loss=2.0, **rates, open_heads=6.5))
    mirror.add(
        Evaluated(step=1, loss=2.0, accuracy=0.5, next_sentence_loss=0.75, next_sentence_accuracy=0.25)
    )
    mirror.flush()
    _, stepped, looked = _events(mirror.path)
    assert _scalars(stepped) == {"loss/train": 2.0, **rates, "open_heads": 6.5}
    assert _scalars(looked) == {
        "loss/validation": 2.0,
        "accuracy/validation": 0.5,
        "loss/next_sentence": 0.75,
        "accuracy/next_sentence": 0.25,
    }


def test_that_what_the_disk_refuses_is_written_later(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("in the way")
    mirror = TensorBoardMirror(tmp_path)
    assert not mirror.flush()
    (tmp_path / "tensorboard").unlink()
    assert mirror.flush()
    assert len(_events(mirror.path)) == 1
