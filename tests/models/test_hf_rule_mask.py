"""Masks of the library as rules: what is recognised, what is worked out cell by cell, what is refused."""

import pytest
import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.huggingface import (
    RuleMask,
    build_mask,
    find_rule_of,
    read_bias,
    read_mask,
    rule_finding,
)
from attnscope.nn import Dense, DenseBias, Intervals, MaskRule, RelativeBias

masking = pytest.importorskip("transformers.masking_utils")

PADDED = torch.tensor([[True] * 9, [False] * 3 + [True] * 6])


def packed(batch, head, q, k):
    return ((q // 4) == (k // 4)) & (k <= q)


def striped(batch, head, q, k):
    return ((q - k) % 2 == 0) & (k <= q)


def memory_of(mask: RuleMask) -> int:
    with torch._C.DisableTorchFunctionSubclass():
        return mask.untyped_storage().nbytes()


FUNCTIONS = {
    "causal": masking.causal_mask_function,
    "both ways": masking.bidirectional_mask_function,
    "window": masking.sliding_window_causal_mask_function(3),
    "window both ways": masking.sliding_window_bidirectional_mask_function(2),
    "chunks": masking.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.long)),
    "chunks behind padding": masking.chunked_causal_mask_function(4, torch.tensor([0, 3])),
    "packed": packed,
    "prefix": masking.or_masks(masking.causal_mask_function, lambda b, h, q, k: k < 4),
    "striped": striped,
}
KINDS = {
    "causal": MaskRule(is_causal=True),
    "both ways": MaskRule(),
    "window": MaskRule(is_causal=True, window=(2, None)),
    "window both ways": MaskRule(window=(2, 2)),
}


def library_cells(function, n_queries: int, n_keys: int, q_offset: int, padding: Tensor | None) -> Tensor:
    """The library's own mask, by its definition: a function of numbers."""
    valid = torch.ones(2, n_keys, dtype=torch.bool) if padding is None else padding
    batch = torch.arange(2)[:, None, None, None]
    q = (torch.arange(n_queries) + q_offset)[None, None, :, None]
    k = torch.arange(n_keys)[None, None, None]
    return function(batch, torch.zeros_like(batch), q, k) & valid[:, None, None]


@pytest.mark.slow
@pytest.mark.parametrize("padding", [None, PADDED], ids=["whole", "padded"])
@pytest.mark.parametrize("n_queries", [9, 4, 1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_that_a_rule_allows_the_cells_of_the_librarys_function(name, n_queries, padding):
    function, offset = FUNCTIONS[name], 9 - n_queries
    mask = build_mask(
        batch_size=2,
        q_length=n_queries,
        kv_length=9,
        q_offset=offset,
        mask_function=function,
        attention_mask=padding,
        use_vmap=False,
    )
    expected = library_cells(function, n_queries, 9, offset, padding)
    assert mask.shape == expected.shape
    assert torch.equal(mask.lay_out(), expected)
    assert memory_of(mask) == 1
    if name in KINDS and n_queries == 9:
        known = KINDS[name]
        assert (mask.rule.is_causal, mask.rule.window) == (known.is_causal, known.window)
        assert mask.rule.pattern is None
    elif n_queries == 9:
        assert isinstance(mask.rule.pattern, Dense if name == "striped" else Intervals)


def test_that_a_function_for_single_cells_is_asked_for_single_cells():
    def prefix(batch, head, q, k):
        return torch.where(k < 4, True, k <= q)

    mask = build_mask(batch_size=2, q_length=9, kv_length=9, mask_function=prefix, use_vmap=True)
    assert isinstance(mask.rule.pattern, Intervals)
    assert torch.equal(mask.lay_out(), library_cells(FUNCTIONS["prefix"], 9, 9, 0, None))


def test_that_a_cache_longer_than_the_text_so_far_hides_the_keys_to_come():
    mask = build_mask(batch_size=1, q_length=3, kv_length=12, q_offset=2)
    assert torch.equal(mask.lay_out(), library_cells(FUNCTIONS["causal"], 3, 12, 2, None)[:1])


def test_that_a_position_in_place_of_lengths_says_the_same():
    mask = build_mask(batch_size=1, kv_length=9, cache_position=torch.arange(5, 9))
    assert mask.rule.is_causal
    assert mask.shape == (1, 1, 4, 9)


def test_that_no_mask_is_given_only_where_none_is_needed():
    both_ways = FUNCTIONS["both ways"]
    sizes = {"batch_size": 2, "q_length": 9, "kv_length": 9, "mask_function": both_ways}
    assert build_mask(**sizes, allow_is_bidirectional_skip=True) is None
    assert build_mask(**sizes, attention_mask=PADDED, allow_is_bidirectional_skip=True) is not None
    assert build_mask(**sizes) is not None


def test_that_a_function_that_only_looks_like_the_librarys_is_worked_out():
    def overlay(sliding_window):
        def inner_mask(batch, head, q, k):
            return (k > q - 2 * sliding_window) & (k <= q)

        return inner_mask

    other = overlay(2)
    other.__module__ = masking.__name__
    other.__qualname__ = "sliding_window_overlay.<locals>.inner_mask"
    mask = build_mask(batch_size=1, q_length=9, kv_length=9, mask_function=other)
    assert mask.rule.window == (3, None)
    assert torch.equal(mask.lay_out(), library_cells(other, 9, 9, 0, None)[:1])


def test_that_a_long_mask_without_a_rule_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(rule_finding, "DENSE_CELLS", 50)
    with pytest.raises(UserError, match="9 × 9"):
        build_mask(batch_size=1, q_length=9, kv_length=9, mask_function=striped)


def test_that_a_long_causal_mask_is_built_without_laying_it_out():
    length = 200_000
    window = FUNCTIONS["window"]
    mask = build_mask(batch_size=1, q_length=length, kv_length=length, mask_function=window)
    assert mask.rule.window == (2, None)
    assert memory_of(mask) == 1


def whole_mask() -> RuleMask:
    rule = MaskRule(is_causal=True, key_valid=PADDED)
    return RuleMask.of(rule, 9, 9, batch=2, device=torch.device("cpu"))


def test_that_a_mask_is_moved_and_sliced_without_being_laid_out():
    mask = whole_mask()
    cells = mask.lay_out()
    for cut in (
        mask.to("cpu"),
        mask.bool().contiguous().clone().detach(),
        mask[:, :, :, :9],
        mask[:, :, -4:, :7],
        mask[..., 2:],
        mask[:, :, 3:],
    ):
        assert isinstance(cut, RuleMask)
        assert memory_of(cut) == 1
    assert torch.equal(mask[:, :, -4:, :7].lay_out(), cells[:, :, -4:, :7])
    assert torch.equal(mask[:, :, -4:][..., 2:].lay_out(), cells[:, :, -4:, 2:])
    assert torch.equal(read_mask(mask[:, :, -4:, 2:], 4, 7).rule.allowed(4, 7), cells[:, :, -4:, 2:])


def test_that_a_model_that_computes_with_its_mask_gets_the_true_cells():
    mask = whole_mask()
    cells = mask.lay_out()
    assert type(cells) is Tensor
    assert torch.equal(~mask, ~cells)
    assert torch.equal(mask & cells, cells)
    assert torch.equal(mask[1:], cells[1:])
    assert torch.equal(torch.cat((mask, mask), dim=1), torch.cat((cells, cells), dim=1))
    assert torch.equal(torch.where(mask, 0.0, -1.0), torch.where(cells, 0.0, -1.0))
    assert torch.equal(mask.to(torch.float32), cells.float())
    assert torch.equal(mask.float(), cells.float())
    assert torch.equal(mask[:, 0], cells[:, 0])
    assert torch.equal(mask.expand(2, 3, 9, 9), cells.expand(2, 3, 9, 9))
    q = torch.sin(torch.arange(2 * 9 * 4.0)).reshape(2, 1, 9, 4)
    attention = torch.nn.functional.scaled_dot_product_attention
    assert torch.equal(attention(q, q, q, attn_mask=mask), attention(q, q, q, attn_mask=cells))


LAID_OUT = {
    "causal": (torch.ones(5, 5).tril().bool()[None, None], lambda rule: rule.is_causal and not rule.window),
    "padding": (PADDED[:, None, None], lambda rule: torch.equal(rule.key_valid, PADDED)),
    "causal and padding": (
        torch.ones(9, 9).tril().bool() & PADDED[:, None, None],
        lambda rule: rule.is_causal and torch.equal(rule.key_valid, PADDED),
    ),
    "chunks": (
        torch.block_diag(torch.ones(3, 3), torch.ones(2, 2)).bool()[None, None],
        lambda rule: isinstance(rule.pattern, Intervals),
    ),
    "another for each head": (
        torch.stack((torch.ones(5, 5).tril(), torch.ones(5, 5))).bool()[None],
        lambda rule: isinstance(rule.pattern, Dense),
    ),
    "nothing seen": (torch.zeros(1, 1, 4, 4, dtype=torch.bool), lambda rule: rule.key_valid is not None),
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_that_a_mask_laid_out_by_the_model_becomes_the_shortest_rule(name):
    cells, is_as_known = LAID_OUT[name]
    size = cells.shape[3]
    rule = find_rule_of(cells, size, size)
    assert is_as_known(rule)
    assert bool((rule.allowed(size, size) == cells).all())


@pytest.mark.parametrize("forbidding", [-torch.inf, torch.finfo(torch.float32).min, -10000.0])
def test_that_a_mask_of_added_numbers_forbids_and_keeps_what_it_adds(forbidding):
    numbers = torch.zeros(1, 1, 5, 5).masked_fill(~torch.ones(5, 5).tril().bool(), forbidding)
    given = read_mask(numbers, 5, 5)
    assert given.rule.is_causal
    assert given.bias is None
    numbers[..., 0] += 0.25
    given = read_mask(numbers, 5, 5)
    assert isinstance(given.bias, DenseBias)
    assert given.rule.is_causal


def test_that_a_bias_by_distance_is_kept_as_distances_and_looked_at_once():
    distance = torch.arange(6)[None, :] - torch.arange(4)[:, None]
    bias = torch.sin(torch.stack((distance, 2 * distance)).float())[None]  # [1, 2, 4, 6]
    found = read_bias(bias, 4, 6)
    assert isinstance(found, RelativeBias)
    assert torch.equal(found.part(4, 6, slice(None), slice(None)), bias)
    assert read_bias(bias, 4, 6) is found
    bias[0, 0, 1, 1] += 1.0
    changed = read_bias(bias, 4, 6)
    assert isinstance(changed, DenseBias)
    assert read_bias(torch.zeros(1, 2, 4, 6), 4, 6) is None


@pytest.mark.parametrize(
    ("mask", "named"),
    [
        (torch.ones(1, 1, 3, 5, dtype=torch.bool), r"\[1, 1, 3, 5\]"),
        (torch.ones(1, 1, 5, 5, dtype=torch.long), "int64"),
        (torch.ones(1, 1, 1, 5, 5), r"\[1, 1, 1, 5, 5\]"),
    ],
)
def test_that_a_mask_that_does_not_fit_is_refused_by_its_shape_or_kind(mask, named):
    with pytest.raises(UserError, match=named):
        read_mask(mask, 5, 5)
