"""Files of recorded attention: the same after opening, refused when changed, and no model."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import attnscope
from attnscope.errors import LoadError, SaveError, UserError
from attnscope.models import open_recording, open_source
from attnscope.nn import MaskRule, ScoreRule
from attnscope.records import Gates, HeadRef
from attnscope.trace import SiteProof, SiteTensors, TextRecord, Trace, is_trace_file, prove_again


@pytest.fixture
def trace() -> Trace:
    model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
    with attnscope.record(model) as recording:
        model(torch.ones(1, 3, 8), torch.ones(1, 2, 8))
    return recording.trace(["a", "b", "c"], ["x", "y"], name="mine")


@pytest.fixture
def given() -> Trace:
    return attnscope.from_arrays(torch.tensor([[[[0.0, 0.5], [0.25, 0.75]]]]), ["a", "b"])


def assert_the_same_check(found: Trace, one: Trace) -> None:
    """Sums are worked out anew, outputs of a model only told of."""
    check, own = found.check(), one.check()
    assert check.row_sum_error == pytest.approx(own.row_sum_error, abs=1e-6)
    assert check == replace(own, row_sum_error=check.row_sum_error, is_read=not own.is_given)


def opened_with(trace: Trace, path: Path, site: tuple[str, int] | None = None, **changed: Callable) -> Trace:
    """The trace of a file whose tensors are others, while its claims are those of the true ones."""
    key = trace.sites[0].key if site is None else trace.site(site).key
    record = trace.records[key]
    false = replace(record, **{name: change(getattr(record, name)) for name, change in changed.items()})
    Trace(
        TextRecord(
            sites=trace.sites,
            gates=trace.gates,
            source=trace.source,
            target=trace.target,
            records={**trace.records, key: false},
            recorded=trace.recorded,
        )
    ).save(path)
    return attnscope.load_trace(path)


def worst_sum(trace: Trace) -> float:
    sums = [row.nansum().double() for site in trace.sites for head in trace.all_weights(site) for row in head]
    return max(abs(float(one) - 1.0) for one in sums)


def test_that_a_file_is_believed_no_further_than_its_rows_sum_to_1(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "false.safetensors"
    for shift in (-2.0, 1.5, 0.01):
        found = opened_with(trace, path, lse=lambda lse, shift=shift: lse + shift)
        check = found.check()
        assert check.row_sum_error == pytest.approx(worst_sum(found), rel=1e-4)
        assert not check.is_good
        assert check.badge == f"⚠ rows off by {check.row_sum_error:.2g}"
        assert "exact" not in check.sentence
        assert check.badge in repr(found)
        assert found.head_map(("encoder", 0, 0)).check == found.check(("encoder", 0))
        assert found.check(("cross", 0)).is_good


def test_that_one_row_of_a_head_is_enough_and_that_rows_without_numbers_are_not_right(
    trace: Trace, tmp_path: Path
) -> None:
    def last_row(value: float) -> Callable:
        def change(lse: torch.Tensor) -> torch.Tensor:
            changed = lse.clone()
            changed[-1, -1] += value
            return changed

        return change

    path = tmp_path / "false.safetensors"
    for value in (0.5, torch.nan, torch.inf, -torch.inf):
        assert not opened_with(trace, path, lse=last_row(value)).check().is_good


def test_that_a_row_said_to_see_nothing_must_see_nothing(tmp_path: Path) -> None:
    weights = torch.tensor([[[[0.5, 0.5, torch.nan], [0.25, 0.75, torch.nan], [torch.nan] * 3]]])
    given = attnscope.from_arrays(weights, ["a", "b", "c"])
    path = tmp_path / "given.safetensors"
    given.save(path)
    assert attnscope.load_trace(path).check().badge == "✓ rows sum to 1"
    false = opened_with(given, path, lse=lambda lse: torch.full_like(lse, -torch.inf))
    assert false.check().row_sum_error == torch.inf


def test_that_the_outputs_in_a_file_are_compared_and_others_only_told_of(
    trace: Trace, tmp_path: Path
) -> None:
    path = tmp_path / "one.safetensors"
    trace.save(path)
    check = attnscope.load_trace(path).check()
    assert (check.badge, check.is_good) == ("✓ rows sum to 1", True)
    assert check.sentence.startswith("rows sum to 1 · its file says: exact")
    key = trace.sites[0].key
    record, weights = trace.records[key], trace.all_weights(key)
    values = torch.arange(weights.shape[2] * 4.0).view(1, -1, 4).expand(len(weights), -1, -1).contiguous()
    whole = {"v": lambda _: values, "out": lambda _: weights.nan_to_num() @ values}
    assert opened_with(trace, path, **whole).check(key).badge.startswith("✓ exact")
    false = opened_with(trace, path, **whole | {"out": lambda _: weights.nan_to_num() @ values + 0.25})
    assert false.check(key).output_error == pytest.approx(0.25, abs=1e-5)
    assert record.v is None


def test_that_weights_given_in_half_precision_are_no_more_off_than_they_were(tmp_path: Path) -> None:
    path = tmp_path / "half.safetensors"
    weights = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0]).log().softmax(0).expand(1, 1, 7, 7)
    for dtype in (torch.bfloat16, torch.float16):
        attnscope.from_arrays(weights.to(dtype), list("abcdefg")).save(path)
        assert attnscope.load_trace(path).check().is_good
    attnscope.from_arrays(weights * 1.004, list("abcdefg")).save(path)  # as far off, and not by rounding
    assert not attnscope.load_trace(path).check().is_good


def test_that_rows_of_long_maps_are_summed_from_first_to_last(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    q, k = (torch.randn(2, 37, 4, generator=generator) for _ in range(2))
    lse = (q @ k.transpose(1, 2)).logsumexp(dim=-1)
    claim = SiteProof(
        row_sum_error=0.0, forbidden_weight=0.0, output_error=0.0, n_rows=37, n_queries=37, is_training=False
    )
    monkeypatch.setattr("attnscope.trace.check.READ_BLOCK_CELLS", 200)

    def again(lse: torch.Tensor, max_cells: int, is_causal: bool = False) -> SiteProof:
        site = SiteTensors(q=q, k=k, lse=lse, rule=MaskRule(), score=ScoreRule(scale=1.0))
        return prove_again(claim, site, is_causal_site=is_causal, max_cells=max_cells)

    for row in range(37):
        false = lse.clone()
        false[1, row] -= 1.0
        assert again(false, 10_000).row_sum_error == pytest.approx(torch.e - 1.0, rel=1e-4)
    assert again(lse, 10_000).row_sum_error < 1e-5
    few = again(lse, 1_000)
    assert (few.n_rows, few.n_queries) == (13, 37)  # every third, the last among them
    assert again(lse, 16_000_000, is_causal=True).forbidden_weight == pytest.approx(
        float((q @ k.mT).softmax(-1).triu(1).max()), rel=1e-4
    )


def test_that_a_saved_recording_is_the_same_when_opened(trace: Trace, given: Trace, tmp_path: Path) -> None:
    for one in (trace, given):
        one.save(tmp_path / "one.safetensors")
        found = attnscope.load_trace(tmp_path / "one.safetensors")
        assert found.recorded == one.recorded
        assert_the_same_check(found, one)
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
        with pytest.raises(SaveError, match="would contain safetensors"):
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
    assert_the_same_check(found, trace)


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
    model = attnscope.load("stories")
    model.trace("to be", gates={"L0H1": 0.0}).save(tmp_path / "one.safetensors")
    info = open_recording(tmp_path / "one.safetensors").info
    assert info.is_recorded
    assert info.name == "one.safetensors"
    assert "Some heads were changed" in info.note
