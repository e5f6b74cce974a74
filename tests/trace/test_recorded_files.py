"""Files of recorded attention: the same after opening, refused when changed, and no model."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import attnscope
from attnscope.errors import LoadError, SaveError, UserError
from attnscope.models.recording.opening import open_recording, open_source
from attnscope.records.sites import Gates, HeadRef
from attnscope.trace.store import is_trace_file
from attnscope.trace.trace import Trace


@pytest.fixture
def trace() -> Trace:
    model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
    with attnscope.record(model) as recording:
        model(torch.ones(1, 3, 8), torch.ones(1, 2, 8))
    return recording.trace(["a", "b", "c"], ["x", "y"], name="mine")


@pytest.fixture
def given() -> Trace:
    return attnscope.from_arrays(torch.tensor([[[[0.0, 0.5], [0.25, 0.75]]]]), ["a", "b"])


def test_that_a_saved_recording_is_the_same_when_opened(trace: Trace, given: Trace, tmp_path: Path) -> None:
    for one in (trace, given):
        one.save(tmp_path / "one.safetensors")
        found = attnscope.load_trace(tmp_path / "one.safetensors")
        assert found.recorded == one.recorded
        assert found.check() == one.check()
        assert (found.source, found.target, found.sites) == (one.source, one.target, one.sites)
        for site in one.sites:
            torch.testing.assert_close(
                found.all_weights(site), one.all_weights(site), rtol=0, atol=0, equal_nan=True
            )


def test_that_files_are_told_by_their_header(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "one.safetensors")
    save_file({"weight": torch.ones(2)}, tmp_path / "other.safetensors")
    (tmp_path / "text.txt").write_text("attnscope_traces")
    found = {p.name for p in tmp_path.iterdir() if is_trace_file(p)}
    assert found == {"one.safetensors"}
    assert not is_trace_file(tmp_path)
    assert not is_trace_file("\0")


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "changed"),
        (lambda data: data.replace(b"mine", b"fake"), "changed"),
        (lambda data: data[:-20], "truncated"),
        (lambda data: data[:40], "truncated"),
    ],
)
def test_that_a_damaged_recording_is_refused(trace: Trace, tmp_path: Path, damage, kind: str) -> None:
    path = tmp_path / "one.safetensors"
    trace.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(LoadError) as refused:
        attnscope.load_trace(path)
    assert refused.value.kind == kind


def test_that_a_name_that_promises_another_format_is_refused(trace: Trace, tmp_path: Path) -> None:
    for name in ("one.npz", "one.CSV"):
        with pytest.raises(SaveError, match="would hold safetensors"):
            trace.save(tmp_path / name)
    trace.save(tmp_path / "one")  # a name without one promises nothing
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_that_traces_written_before_hashes_still_open(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "one.safetensors"
    trace.save(path)
    with path.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    described = json.loads(header["__metadata__"]["attnscope_traces"])
    del described["sha256"]
    for one in described["traces"]:
        del one["recorded"]
        for site in one["sites"]:
            del site["proof"]["is_given"]
    save_file(load_file(path), path, metadata={"attnscope_traces": json.dumps(described)})
    found = attnscope.load_trace(path)
    assert found.recorded is None
    assert found.check() == trace.check()


def test_that_a_recording_stands_in_for_a_model_that_only_shows(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "one.safetensors"
    trace.save(path)
    model = open_source(str(path))
    info = model.info
    assert (info.name, info.is_recorded, info.takes_target) == ("mine", True, True)
    (sample,) = info.samples
    assert (sample.text, sample.target) == ("a b c", "x y")
    look = model.look(sample.text, sample.target)
    assert look.comparison.after.predictions == ()
    for site in trace.sites:
        torch.testing.assert_close(look.trace.all_weights(site), trace.all_weights(site))
    with pytest.raises(UserError, match="cannot read another text"):
        model.trace("another text")
    with pytest.raises(UserError, match="Changing heads needs a model"):
        model.look(sample.text, gates=Gates.of({HeadRef(stack="encoder", layer=0, head=0): 0.0}))
    for ask in (
        lambda: model.network.write(model.encode("")),
        lambda: model.network.answer(0),
        lambda: model.network.run(model.encode("")).logits(),
        lambda: model.network.vocabulary.entries,
        lambda: model.network.vocabulary.begin_id,
        lambda: model.network.vocabulary.decode([0]),
    ):
        with pytest.raises(UserError, match="needs a model, and mine is recorded attention"):
            ask()
    with pytest.raises(LoadError, match="recorded attention, not a model"):
        attnscope.load(path)


def test_that_the_trace_of_a_model_opens_likewise(tmp_path: Path) -> None:
    model = attnscope.load("shakespeare")
    model.trace("to be", gates={"L0H1": 0.0}).save(tmp_path / "one.safetensors")
    info = open_recording(tmp_path / "one.safetensors").info
    assert info.is_recorded
    assert "Some heads were changed" in info.note
