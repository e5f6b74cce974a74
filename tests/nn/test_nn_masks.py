from dataclasses import replace

import pytest
import torch

from attnscope.nn import Intervals, MaskRule, ModelConfig, RemovedCells, build_rule, build_self_mask, masks

PADDED = torch.tensor([[True, True, False], [False, True, True], [False, False, False]])


def seen_by_loop(rule: MaskRule, n_queries: int, n_keys: int, batch: int) -> torch.Tensor:
    seen = torch.zeros(batch, 1, n_queries, n_keys, dtype=torch.bool)
    for b in range(batch):
        for i in range(n_queries):
            for j in range(n_keys):
                is_past = not rule.is_causal or j <= i + n_keys - n_queries
                is_valid = rule.key_valid is None or bool(rule.key_valid[b, j])
                seen[b, 0, i, j] = is_past and is_valid
    return seen


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("n_queries", [1, 2, 3, 5])
def test_that_a_rule_allows_what_a_loop_over_pairs_allows(is_causal, is_padded, n_queries):
    rule = MaskRule(is_causal=is_causal, key_valid=PADDED if is_padded else None)
    batch = 3 if is_padded else 1
    expected = seen_by_loop(rule, n_queries, 3, batch)
    assert torch.equal(rule.allowed(n_queries, 3), expected)
    blind = rule.rows_without_keys(n_queries, 3)
    found = torch.zeros(1, dtype=torch.bool) if blind is None else blind
    assert torch.equal(found.expand(batch, 1, n_queries), ~expected.any(dim=-1))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("key_valid", [None, PADDED])
def test_that_a_tile_of_a_rule_is_a_part_of_the_whole(is_causal, key_valid):
    rule = MaskRule(is_causal=is_causal, key_valid=key_valid)
    whole = rule.allowed(3, 3)
    for rows, cols in ((slice(1, 3), slice(0, 2)), (slice(0, 2), slice(1, 3)), (slice(2, 3), slice(0, 3, 2))):
        assert torch.equal(rule.allowed(3, 3, rows, cols), whole[:, :, rows, cols])
        listed = torch.arange(3)[cols]
        assert torch.equal(rule.allowed(3, 3, rows, listed), whole[:, :, rows, cols])


def test_that_a_key_valid_without_padding_is_dropped():
    assert build_rule(is_causal=False, key_valid=torch.ones(2, 4, dtype=torch.bool)).is_empty
    assert build_rule(is_causal=True, key_valid=torch.ones(2, 4)).key_valid is None
    assert build_rule(is_causal=False).is_empty
    assert not build_rule(is_causal=False, key_valid=PADDED).is_empty
    assert not build_rule(is_causal=True).is_empty


def test_that_a_rule_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"expected \[batch, n_keys\]"):
        build_rule(is_causal=False, key_valid=torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"expected \[batch, 4\]"):
        MaskRule(key_valid=PADDED).allowed(4, 4)


def test_that_padding_as_numbers_is_zero_or_minus_infinity():
    bias = MaskRule(key_valid=PADDED).key_bias(torch.float32)
    assert bias is not None
    assert bias.shape == (3, 1, 1, 3)
    assert torch.equal(bias[:, 0, 0] == 0, PADDED)
    assert torch.equal(torch.isneginf(bias[:, 0, 0]), ~PADDED)
    assert MaskRule().key_bias(torch.float32) is None


CELLS = ((0, 1, 1), (0, 2, 3), (1, 0, 5), (1, 4, 0), (1, 4, 4))


@pytest.mark.parametrize(
    "rows", [range(5), range(0, 5, 2), range(2, 5, 2), range(1, 5, 3), range(4, 5), range(0)]
)
@pytest.mark.parametrize("columns", [range(6), range(1, 6, 2), range(0, 6, 4), range(5, 6)])
def test_that_removed_cells_lack_in_every_part_of_the_map(rows: range, columns: range) -> None:
    removed = RemovedCells(cells=torch.tensor(CELLS), n_heads=2)
    expected = [[[(head, i, j) not in CELLS for j in columns] for i in rows] for head in range(2)]
    found = removed.allowed(torch.tensor(list(rows)), torch.tensor(list(columns)))
    assert found[0].tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("n_cells", [1, 7, 4_000_000])
@pytest.mark.parametrize("window", [None, (0, 0), (1, 0), (-1, 1), (None, 0), (1, None)])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("key_valid", [None, PADDED])
@pytest.mark.parametrize("lacks", ["nothing", "cells", "all before 2"])
def test_that_rows_without_keys_are_those_that_a_loop_finds(
    n_cells: int,
    window: tuple[int | None, int | None] | None,
    is_causal: bool,
    key_valid: torch.Tensor | None,
    lacks: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(masks, "_BLOCK_CELLS", n_cells)
    cells = torch.tensor([(0, 2, key) for key in range(3)])
    first = torch.full((1, 4), 2)
    rule = MaskRule(
        is_causal=is_causal,
        key_valid=key_valid,
        window=window,
        removed=RemovedCells(cells=cells, n_heads=1) if lacks == "cells" else None,
        pattern=Intervals(first=first, last=first) if lacks == "all before 2" else None,
    )
    back, ahead = window or (None, None)
    for n_queries in (4,) if lacks == "all before 2" else (1, 3, 4):
        for text in range(3 if key_valid is not None else 1):
            blind = []
            for i in range(n_queries):
                place = i + 3 - n_queries
                blind.append(
                    not any(
                        (key_valid is None or bool(key_valid[text, j]))
                        and (not is_causal or j <= place)
                        and (back is None or j >= place - back)
                        and (ahead is None or j <= place + ahead)
                        and not (lacks == "cells" and i == 2)
                        and not (lacks == "all before 2" and j < 2)
                        for j in range(3)
                    )
                )
            found = rule.rows_without_keys(n_queries, 3)
            rows = torch.zeros(1, 1, 1, dtype=torch.bool) if found is None else found
            row = rows[min(text, len(rows) - 1), 0].expand(n_queries)
            assert row.tolist() == blind, (n_queries, text)


def test_that_the_rule_of_the_last_text_holds_nothing_of_the_others() -> None:
    lengths = torch.tensor([[0, 0, 0], [0, 1, 1], [0, 1, 2]])
    pattern = Intervals(first=torch.zeros_like(lengths), last=lengths)
    for rule in (
        MaskRule(key_valid=PADDED[[0, 2, 1]]),
        MaskRule(pattern=pattern),
        MaskRule(is_causal=True, key_valid=PADDED[[2, 1, 0]], pattern=pattern),
    ):
        last = rule.last_text()
        assert torch.equal(last.allowed(3, 3), rule.allowed(3, 3)[-1:])
        if last.key_valid is not None:
            assert last.key_valid.untyped_storage().nbytes() == 3
    plain = MaskRule(is_causal=True)
    assert plain.last_text() is plain


@pytest.mark.parametrize("mask", ["full", "window", "dilated", "prefix", "global"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_that_a_mask_that_is_given_takes_the_place_of_the_models_own(mask: str, is_causal: bool) -> None:
    choices = {"window": 1, "dilation": 2, "prefix_tokens": 2, "global_tokens": 1}
    config = ModelConfig(form="decoder", vocab_size=9, max_tokens=16, mask=mask, **choices)  # type: ignore[arg-type]
    first = torch.tensor([[0, 0, 0, 1, 0, 5]])
    last = torch.tensor([[0, 1, 2, 3, 4, 5]]) + 1
    given = Intervals(first=first, last=last.clamp(max=5))
    rule = build_self_mask(config, 16).rule(6, 6, is_causal=is_causal, pattern=given)
    for i in range(6):
        for j in range(6):
            is_seen = first[0, i] <= j <= last[0, i] and (not is_causal or j <= i)
            assert bool(rule.allowed(6, 6)[0, 0, i, j]) == bool(is_seen), (i, j)


@pytest.mark.parametrize("mask", ["full", "window", "prefix", "global"])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(5, 5), (2, 5), (1, 1)])
def test_that_each_texts_own_prefix_takes_the_place_of_the_models_mask(
    mask: str, n_queries: int, n_keys: int
) -> None:
    config = ModelConfig(form="decoder", vocab_size=9, max_tokens=16, mask=mask, window=1, prefix_tokens=2)  # type: ignore[arg-type]
    prefix = torch.tensor([3, 0, 9])
    rule = build_self_mask(config, 16).rule(n_queries, n_keys, is_causal=True, prefix=prefix)
    found = rule.allowed(n_queries, n_keys)
    for text, length in enumerate(prefix.tolist()):
        for i in range(n_queries):
            place = i + n_keys - n_queries
            expected = [j <= place or j < length for j in range(n_keys)]
            assert found[text, 0, i].tolist() == expected, (text, i)


def test_that_random_blocks_keep_the_first_tokens_seen_and_follow_their_seed() -> None:
    choices = {"window": 1, "global_tokens": 2, "mask_block": 2, "random_blocks": 1}
    config = ModelConfig(form="encoder", vocab_size=9, max_tokens=32, mask="bigbird", **choices)  # type: ignore[arg-type]
    first, again, other = (
        build_self_mask(replace(config, mask_seed=seed), 32)
        .rule(32, 32, is_causal=False)
        .allowed(32, 32)[0, 0]
        for seed in (0, 0, 7)
    )
    assert first[:, :2].all()
    assert first[:2].all()
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.sum() < 32 * 32 / 2
