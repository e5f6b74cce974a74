"""What a reach says of a mask, rectangle by rectangle, against the mask's own cells."""

import itertools

import pytest
import torch
from long_records import KINDS, long_record

from attnscope.nn import Dense, MaskRule
from attnscope.trace import OneHead, Reach

pytestmark = pytest.mark.slow

SIZES = ((7, 7), (5, 9), (9, 5))
HOLES = torch.tensor([[True, False, True, True, False, True, True, True, False]])
ALWAYS_OPEN = ("open", "relative bias", "sinks", "shared keys")


def rule_of(kind: str, n_queries: int, n_keys: int) -> MaskRule:
    if kind == "holes":
        return MaskRule(key_valid=HOLES[:, :n_keys])
    return OneHead(long_record(kind, n_queries, n_keys), 0).rule


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [*KINDS, "holes"])
def test_that_reach_and_openness_are_those_of_every_cell(kind: str, size: tuple[int, int]) -> None:
    rule = rule_of(kind, *size)
    allowed = rule.allowed(*size)[0, 0].expand(size)
    reach = Reach.of(rule, *size)
    assert reach.keys_of(range(2, 2)) == range(0)
    for top, bottom in itertools.combinations(range(size[0] + 1), 2):
        seen = allowed[top:bottom].any(dim=0).nonzero()[:, 0].tolist()
        keys = reach.keys_of(range(top, bottom))
        assert set(seen) <= set(keys)
        if kind in ("causal", "window", "window both ways", "intervals"):
            assert (keys.start, keys.stop) == (seen[0], seen[-1] + 1) if seen else not keys
        for left, right in itertools.combinations(range(size[1] + 1), 2):
            is_open = bool(allowed[top:bottom, left:right].all())
            assert reach.is_open(range(top, bottom), range(left, right)) == is_open
    if kind in ALWAYS_OPEN:
        assert reach.is_open(range(size[0]), range(size[1]))


def test_that_a_mask_drawn_cell_by_cell_is_never_surely_open() -> None:
    rule = MaskRule(pattern=Dense(cells=torch.ones(1, 1, 4, 4, dtype=torch.bool)))
    assert not Reach.of(rule, 4, 4).is_open(range(4), range(4))
    assert Reach.of(rule, 4, 4).keys_of(range(4)) == range(4)
