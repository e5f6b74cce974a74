"""Records: frozen facts, checked when they are made."""

import math

import numpy as np
import pytest

from attnscope.errors import UserError
from attnscope.records import (
    NO_GATES,
    Gates,
    GateTable,
    HeadMap,
    HeadRef,
    SelfCheck,
    Site,
    SiteGrid,
    Token,
    check_heads,
    find_site,
)

SITE = Site(stack="encoder", layer=1, n_heads=2, n_kv_heads=2)
HEAD = HeadRef(stack="encoder", layer=1, head=0)


def test_that_a_head_is_written_the_way_people_write_it() -> None:
    assert HeadRef(stack="decoder", layer=3, head=5).label == "L3H5"


def test_that_gates_at_one_are_the_same_as_no_gates() -> None:
    assert NO_GATES.with_value(HEAD, 0.0).with_value(HEAD, 1.0) == NO_GATES
    assert not NO_GATES


def test_that_gates_do_not_depend_on_the_order_they_were_set_in() -> None:
    other = HeadRef(stack="encoder", layer=1, head=1)
    assert Gates.of({HEAD: 0.5, other: 0.0}) == Gates.of({other: 0.0, HEAD: 0.5})
    assert Gates.of({HEAD: 0.5, other: 0.0}).off() == (other,)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_that_a_gate_outside_its_range_is_refused_with_the_value(value: float) -> None:
    with pytest.raises(UserError, match=r"L1H0.*is .*0 \(head removed\) to 1"):
        NO_GATES.with_value(HEAD, value)


def test_that_a_gate_table_knows_every_head_and_refuses_others() -> None:
    """F46: a mask from another model is refused, not silently ignored."""
    table = GateTable((SITE,))
    table["encoder", 1, 0] = 0.0
    assert dict(table) == {("encoder", 1, 0): 0.0, ("encoder", 1, 1): 1.0}
    assert table.frozen() == Gates.of({HEAD: 0.0})
    with pytest.raises(UserError, match="no head L1H2"):
        table["encoder", 1, 2] = 0.0
    with pytest.raises(UserError, match="no head L0H0 in the stack 'cross'"):
        check_heads([HeadRef(stack="cross", layer=0, head=0)], [SITE])
    with pytest.raises(UserError):
        find_site([SITE], ("encoder", 7))


def test_that_arrays_in_records_cannot_be_changed_from_inside_or_outside() -> None:
    weights = np.eye(2, dtype=np.float32)
    tokens = (Token(id=1, piece="a"), Token(id=2, piece="b"))
    head_map = HeadMap(head=HEAD, queries=tokens, keys=tokens, weights=weights)
    weights[0, 0] = 7.0
    assert head_map.weights[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        head_map.weights[0, 0] = 5.0


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 2, 1), (0, 2)])
def test_that_a_map_whose_shape_cannot_be_right_is_refused(shape: tuple[int, ...]) -> None:
    tokens = (Token(id=1, piece="a"), Token(id=2, piece="b"))
    with pytest.raises(ValueError, match=r"axes|shape"):
        HeadMap(head=HEAD, queries=tokens, keys=tokens, weights=np.zeros(shape, np.float32))


def test_that_a_grid_says_whether_it_was_pooled() -> None:
    levels = np.zeros((2, 4, 4), np.uint8)
    whole = SiteGrid(site=SITE, n_queries=4, n_keys=4, levels=levels, peaks=np.ones(2))
    pooled = SiteGrid(site=SITE, n_queries=9, n_keys=4, levels=levels, peaks=np.ones(2))
    assert not whole.is_pooled
    assert pooled.is_pooled
    with pytest.raises(ValueError, match="2 heads"):
        SiteGrid(site=SITE, n_queries=4, n_keys=4, levels=levels[:1], peaks=np.ones(1))


def test_that_the_badge_is_bad_when_any_number_is_bad() -> None:
    """F47: rows that do not sum to 1 are said, not drawn as if they did."""
    good = SelfCheck(row_sum_error=1e-7, forbidden_weight=0.0, output_error=2e-7, is_evaluation_mode=True)
    assert good.is_good
    assert good.sentence == "rows sum to 1 · exact to 2e-07"
    nan = SelfCheck(
        row_sum_error=float("nan"), forbidden_weight=0.0, output_error=0.0, is_evaluation_mode=True
    )
    assert not nan.is_good
    same = SelfCheck(row_sum_error=0, forbidden_weight=0, output_error=0, is_evaluation_mode=True)
    assert (good.badge, good.sentence) == ("✓ exact to 2e-07", "rows sum to 1 · exact to 2e-07")
    assert (same.badge, same.sentence) == ("✓ exact", "rows sum to 1 · exact")
    training = SelfCheck(row_sum_error=0, forbidden_weight=0, output_error=0, is_evaluation_mode=False)
    assert "training mode" in training.sentence
    broken = SelfCheck(
        row_sum_error=math.inf, forbidden_weight=0.0, output_error=math.inf, is_evaluation_mode=True
    )
    assert not broken.is_good
    assert (broken.badge, broken.sentence) == (
        "⚠ weights not finite",
        "weights that are not finite: NaN or infinite",
    )
    off = SelfCheck(row_sum_error=0.1, forbidden_weight=0.0, output_error=0.0, is_evaluation_mode=True)
    assert off.sentence == "row sums off by 1e-01"  # and nothing about what is right
