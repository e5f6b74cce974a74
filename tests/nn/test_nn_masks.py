import pytest
import torch

from attnscope.nn.masks import MaskRule, build_rule

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
    rows, cols = slice(1, 3), slice(0, 2)
    assert torch.equal(rule.allowed(3, 3, rows, cols), rule.allowed(3, 3)[:, :, rows, cols])


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
