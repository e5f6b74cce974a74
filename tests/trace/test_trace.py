import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope.errors import LoadError, UserError
from attnscope.nn import MaskRule, ScoreRule
from attnscope.records import Gates, HeadRef, Site
from attnscope.trace import (
    GateProbe,
    SiteProof,
    SiteRecord,
    SiteTensors,
    TraceProbe,
    load_trace,
    load_traces,
    merge_proofs,
    pooled_tile,
    prove,
    save_records,
    site_weights,
)


def record_of(
    n_queries: int, n_keys: int, *, is_causal: bool = False, key_valid: list[bool] | None = None
) -> SiteRecord:
    step = torch.arange((n_queries + 2 * n_keys) * 8 * 4, dtype=torch.float64)
    values = torch.sin(step * step * 0.731).float() * 2
    q = values[: 4 * n_queries * 8].reshape(4, n_queries, 8)
    k = values[-2 * n_keys * 8 :].reshape(2, n_keys, 8)
    v = values[4 * n_queries * 8 :][: 2 * n_keys * 8].reshape(2, n_keys, 8)
    valid = None if key_valid is None else torch.tensor([key_valid])
    rule = MaskRule(is_causal=is_causal, key_valid=valid)
    scores = q @ k.repeat_interleave(2, 0).transpose(1, 2) * 0.3
    scores = scores.masked_fill(~rule.allowed(n_queries, n_keys)[0], -math.inf)
    out = scores.softmax(-1).nan_to_num(nan=0.0) @ v.repeat_interleave(2, 0)
    lse, score = scores.logsumexp(-1), ScoreRule(scale=0.3)
    sites = SiteTensors(q=q[None], k=k[None], v=v[None], lse=lse[None], out=out[None], rule=rule, score=score)
    proof = prove(sites, is_causal_site=is_causal, is_training=False)[0]
    return SiteRecord(q=q, k=k, v=v, lse=lse, out=out, rule=rule, score=score, proof=proof)


def slow_weights(record: SiteRecord, head: int) -> np.ndarray:
    """Softmax in float64, one row at a time, NaN where the rule forbids."""
    allowed = record.rule.allowed(record.n_queries, record.n_keys)[0, 0].expand(
        record.n_queries, record.n_keys
    )
    weights = np.full((record.n_queries, record.n_keys), np.nan)
    n_groups = record.q.shape[0] // record.k.shape[0]
    for i in range(record.n_queries):
        seen = [j for j in range(record.n_keys) if allowed[i, j]]
        q, k = record.q[head, i].double(), record.k[head // n_groups].double()
        powers = [math.exp(float(q @ k[j]) * record.score.scale) for j in seen]
        for j, power in zip(seen, powers, strict=True):
            weights[i, j] = power / sum(powers)
    return weights


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("key_valid", [None, [True] * 7 + [False] * 2, [False] * 9])
def test_that_weights_equal_a_slow_softmax(is_causal: bool, key_valid: list[bool] | None) -> None:
    record = record_of(9, 9, is_causal=is_causal, key_valid=key_valid)
    for head in range(4):
        # float32 against float64: exp of scores near 10 loses about 1e-6
        np.testing.assert_allclose(
            site_weights(record)[head].numpy(), slow_weights(record, head), atol=3e-6, rtol=0
        )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_that_a_trace_of_a_model_believes_itself(form: str, position: str) -> None:
    trace = tiny_model(form, position=position).trace(SENTENCE, target_of(form))
    check = trace.check()
    assert check.is_good, check
    assert check.forbidden_weight == 0.0
    for site in trace.sites:
        weights = trace.all_weights(site)
        assert weights.dtype == torch.float32
        np.testing.assert_allclose(weights.nan_to_num(0).sum(-1).numpy(), 1.0, atol=2e-6)


def test_that_causal_rows_ignore_the_future() -> None:
    model = tiny_model("decoder")
    short, long = model.trace("the cat sat"), model.trace("the cat sat on the mat")
    n = len(short.source)
    for site in short.sites:
        for head in range(4):
            part = long.weights(site, head)[:n, :n]
            np.testing.assert_allclose(short.weights(site, head), part, atol=1e-6, equal_nan=True)
            assert np.isnan(part[np.triu_indices(n, 1)]).all()
            assert not np.isnan(part[np.tril_indices(n)]).any()


@pytest.mark.parametrize("reduce", ["max", "mean"])
def test_that_a_tile_of_a_part_equals_the_part_of_the_whole(reduce: str) -> None:
    trace = tiny_model("decoder").trace(SENTENCE)
    whole = trace.weights(1, 2)
    for rows, cols in ((slice(1, 5), slice(0, 3)), (slice(0, 7), slice(2, 7)), (slice(3, 4), slice(3, 4))):
        tile = trace.tile(1, 2, rows, cols, reduce=reduce)
        np.testing.assert_array_equal(tile, whole[rows, cols])


@pytest.mark.parametrize(("reduce", "blocks"), [("max", 10**6), ("mean", 10**6), ("max", 40), ("mean", 40)])
def test_that_a_pooled_tile_stands_for_the_cells_it_names(
    reduce: str, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnscope.trace.record.BLOCK_CELLS", blocks)
    record = record_of(13, 13, is_causal=True)
    weights = site_weights(record)[1].numpy()
    height, width = 5, 3
    tile = pooled_tile(record, 1, range(2, 13), range(13), (height, width), reduce).numpy()
    for r in range(height):
        rows = weights[2:][r * 11 // height : -(-(r + 1) * 11 // height)]
        for c in range(width):
            cells = rows[:, c * 13 // width : -(-(c + 1) * 13 // width)]
            seen = cells[~np.isnan(cells)]
            expected = np.nan if not len(seen) else (seen.max() if reduce == "max" else seen.mean())
            np.testing.assert_allclose(tile[r, c], expected, atol=1e-6)


def test_that_rows_and_columns_are_those_of_the_map() -> None:
    trace = tiny_model("encoder-decoder").trace(SENTENCE, "le chat")
    for site in trace.sites:
        weights = trace.weights(site.key, 3)
        np.testing.assert_array_equal(trace.row(site, 3, -1), weights[-1])
        np.testing.assert_array_equal(trace.column(site, 3, 1), weights[:, 1])
        queries, keys = trace.tokens(site)
        assert weights.shape == (len(queries), len(keys))


@pytest.mark.parametrize("max_px", [96, 4])
def test_that_a_grid_gives_back_the_weights_to_half_a_level(max_px: int) -> None:
    trace = tiny_model("decoder").trace(SENTENCE)
    grid = trace.grid(0, max_px)
    assert grid.is_pooled == (max_px == 4)
    for head in range(4):
        size = (min(7, max_px),) * 2
        exact = trace.tile(0, head, slice(None), slice(None), size=size)
        peak = grid.peaks[head]
        found = (grid.levels[head].astype(float) - 1) / 254 * peak
        assert peak == pytest.approx(np.nanmax(exact))
        assert ((grid.levels[head] == 0) == np.isnan(exact)).all()
        assert np.nanmax(np.abs(found - exact)) <= 0.51 * peak / 254


def test_that_a_grid_of_a_large_site_equals_that_of_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tiny_model("decoder").trace(SENTENCE)
    small = trace.grid(1, 5)
    monkeypatch.setattr("attnscope.trace.record.BLOCK_CELLS", 20)
    large = trace.grid(1, 5)
    np.testing.assert_array_equal(small.levels, large.levels)
    np.testing.assert_array_equal(small.peaks, large.peaks)


def test_that_a_head_map_carries_its_tokens_and_cannot_be_written_to() -> None:
    trace = tiny_model("encoder-decoder").trace(SENTENCE, "le chat")
    found = trace.head_map(HeadRef(stack="cross", layer=1, head=2))
    assert [t.piece for t in found.queries] == ["<s>", "le", "chat"]
    assert found.keys[-1].piece == "</s>"
    assert not found.weights.flags.writeable
    np.testing.assert_array_equal(found.weights, trace.weights(("cross", 1), 2))


def test_that_a_site_has_three_names() -> None:
    trace = tiny_model("decoder").trace(SENTENCE)
    named = (1, trace.sites[1], ("decoder", 1))
    maps = [trace.weights(name, 0) for name in named]
    assert all(np.array_equal(maps[0], one, equal_nan=True) for one in maps)


@pytest.mark.parametrize(
    "look",
    [
        lambda t: t.weights(9, 0),
        lambda t: t.weights(0, 4),
        lambda t: t.weights(0, -1),
        lambda t: t.weights(("cross", 0), 0),
        lambda t: t.row(0, 0, 99),
        lambda t: t.tile(0, 0, slice(0, 2), slice(0, 2), reduce="median"),
        lambda t: t.tile(0, 0, range(0, 99), range(0, 2)),
        lambda t: t.tile(0, 0, slice(0, 2), slice(0, 2), size=(0, 2)),
        lambda t: t.head_map(HeadRef(stack="encoder", layer=0, head=0)),
    ],
)
def test_that_what_is_not_there_is_refused_in_words(look: object) -> None:
    trace = tiny_model("decoder").trace(SENTENCE)
    with pytest.raises(UserError, match=r"Expected|expected"):
        look(trace)  # type: ignore[operator]


def proof_of(
    record: SiteRecord, *, is_causal_site: bool = True, is_training: bool = False, **changes: object
) -> SiteProof:
    facts = {name: getattr(record, name) for name in ("q", "k", "v", "lse", "out", "rule", "score")}
    facts |= changes
    facts = {n: v[None] if isinstance(v, torch.Tensor) else v for n, v in facts.items()}
    return prove(SiteTensors(**facts), is_causal_site=is_causal_site, is_training=is_training)[0]


def test_that_the_check_sees_a_wrong_normaliser_a_lost_mask_and_training_mode() -> None:
    record = tiny_model("decoder").trace(SENTENCE, keep_values=True).records["decoder", 0]
    assert merge_proofs([proof_of(record)]).is_good
    assert proof_of(record, lse=record.lse + 0.1).row_sum_error > 0.05
    no_mask = merge_proofs([proof_of(record, rule=MaskRule())])
    assert no_mask.forbidden_weight > 0.01
    assert not no_mask.is_good
    dropout = merge_proofs([proof_of(record), proof_of(record, is_training=True)])
    assert not dropout.is_good
    assert "training mode" in dropout.sentence
    assert record.out is not None
    assert not merge_proofs([proof_of(record, out=record.out + 0.01)]).is_good
    assert merge_proofs([proof_of(record, q=torch.full_like(record.q, math.nan))]).is_good is False


def test_that_padding_that_the_rule_lacks_or_invents_is_seen() -> None:
    valid = [True] * 4 + [False] * 2
    padded, whole = record_of(6, 6, key_valid=valid), record_of(6, 6)
    assert merge_proofs([proof_of(padded, is_causal_site=False)]).is_good
    lacking = proof_of(padded, rule=MaskRule(), is_causal_site=False)
    assert min(lacking.output_error, lacking.row_sum_error) > 1e-2
    claims = MaskRule(key_valid=torch.tensor([valid]))
    inventing = proof_of(whole, rule=claims, is_causal_site=False)
    assert min(inventing.output_error, inventing.row_sum_error) > 1e-2


def test_that_a_trace_keeps_queries_and_keys_and_values_only_on_request() -> None:
    model = tiny_model("decoder")
    lean, full = model.trace(SENTENCE), model.trace(SENTENCE, keep_values=True)
    record = lean.records["decoder", 0]
    assert record.v is None
    assert record.out is None
    q, k, lse = record.q, record.k, record.lse
    own_bytes = 4 * (q.numel() + k.numel() + lse.numel())
    assert lean.n_bytes == own_bytes * len(lean.sites)
    assert full.n_bytes > lean.n_bytes


def test_that_long_maps_are_checked_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscope.trace.check.MAX_CELLS", 60)
    check = tiny_model("decoder").trace(SENTENCE).check()
    assert check.is_good
    assert 0 < check.n_rows < check.n_all_rows


@pytest.mark.parametrize("form", FORMS)
def test_that_a_saved_trace_is_the_same_without_its_model(form: str, tmp_path: Path) -> None:
    head = tiny_model(form).sites[0].heads[1]
    trace = tiny_model(form).trace(SENTENCE, target_of(form), Gates.of({head: 0.25}))
    trace.save(tmp_path / "one.safetensors")
    found = load_trace(tmp_path / "one.safetensors")
    assert (found.sites, found.gates, found.source, found.target) == (
        trace.sites,
        trace.gates,
        trace.source,
        trace.target,
    )
    np.testing.assert_array_equal(found.logits, trace.logits)
    for site in trace.sites:
        np.testing.assert_array_equal(found.all_weights(site).numpy(), trace.all_weights(site).numpy())
    check = found.check()
    assert check.is_good
    assert check == dataclasses.replace(trace.check(), row_sum_error=check.row_sum_error, is_read=True)


def test_that_several_traces_share_a_file_and_logits_are_optional(tmp_path: Path) -> None:
    model = tiny_model("decoder")
    path = tmp_path / "5.safetensors"
    save_records(path, (model.trace("the cat").kept, model.trace("a dog").kept), has_logits=False)
    first, second = load_traces(path)
    assert (first.source.text, second.source.text) == ("the cat", "a dog")
    assert not first.has_logits
    with pytest.raises(UserError, match="does not hold the model's output"):
        _ = first.logits


def test_that_tensors_that_are_no_trace_are_refused(tmp_path: Path) -> None:
    from attnscope.trace import read_tensors, write_tensors

    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": torch.zeros(2)}, {})
    with pytest.raises(LoadError, match="no traces"):
        load_trace(path)
    tiny_model("decoder").trace("the cat").save(path)
    file = read_tensors(path)
    tensors = {name: t for name, t in file.tensors.items() if not name.endswith("lse")}
    write_tensors(path, tensors, file.metadata)
    with pytest.raises(LoadError, match="does not fit"):
        load_trace(path)


SITES = (Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2),)


def test_that_gates_at_one_are_no_gates_and_unknown_heads_are_refused() -> None:
    assert GateProbe(SITES, Gates()).gate(("decoder", 0)) is None
    with pytest.raises(UserError, match="no head L7H0"):
        TraceProbe(SITES, Gates.of({HeadRef(stack="decoder", layer=7, head=0): 0.0}))


def test_that_a_paired_probe_leaves_the_first_copy_alone() -> None:
    gates = Gates.of({HeadRef(stack="decoder", layer=0, head=1): 0.5})
    gate = GateProbe(SITES, gates, is_paired=True).gate(("decoder", 0))
    assert gate is not None
    assert gate.tolist() == [[1.0, 1.0], [1.0, 0.5]]
