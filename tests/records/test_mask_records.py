"""Drawn masks as records: cells, rows as text, JSON, and edge lists as people write them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnscope.errors import UserError
from attnscope.records import (
    MAX_MASK_TOKENS,
    Site,
    Token,
    UseMask,
    blind_rows,
    cells_from_edges,
    cells_from_rows,
    edges_from_text,
    interventions_as_json,
    interventions_from_json,
    maskable_stack,
    rows_as_text,
)

TOKENS = tuple(
    Token(id=k, piece=piece, joins_previous=bool(joins))
    for k, (piece, joins) in enumerate(zip(("The", "cat", "sat", "s", "3"), (0, 0, 0, 1, 0), strict=True))
)


@settings(deadline=None)
@given(st.integers(1, 9).flatmap(lambda n: arrays(np.bool_, (n, n))))
def test_that_cells_survive_rows_bits_and_json(cells):
    assert np.array_equal(cells_from_rows(rows_as_text(cells)), cells)
    mask = UseMask.of_cells("encoder", cells, "some")
    assert np.array_equal(mask.cells, cells)
    assert mask.n_allowed == sum(bool(cell) for row in cells for cell in row)
    assert interventions_from_json(interventions_as_json((mask,))) == (mask,)


def test_that_runs_of_keys_are_written_short():
    cells = np.array([[1, 1, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    assert rows_as_text(cells) == ("0-2", "1 3", "", "0-3")


@pytest.mark.parametrize(
    "rows", [["0 4", "", "", ""], ["x"], ["1-0", "0"], [], ["0"] * (MAX_MASK_TOKENS + 1)]
)
def test_that_rows_which_are_no_mask_are_refused(rows):
    with pytest.raises(ValueError, match=r"row|rows"):
        cells_from_rows(rows)


def test_that_a_mask_of_another_size_than_its_bits_is_refused():
    with pytest.raises(ValueError, match="bytes are not a mask"):
        UseMask(stack="encoder", n_tokens=4, bits=b"1")
    with pytest.raises(UserError, match="cannot be drawn"):
        UseMask.of_cells("encoder", np.ones((2, 3), bool))


def test_that_a_row_whose_only_keys_lie_ahead_is_blind_under_causality():
    cells = np.array([[0, 1], [1, 0]], bool)
    assert blind_rows(cells, is_causal=False) == ()
    assert blind_rows(cells, is_causal=True) == (0,)


def test_that_edges_are_read_by_number_text_and_word():
    text = '# graph\n0 1\n\ncat -> the\n"3", sats\n4\tsat\n0 1\n'
    # “the” reads as “The”, the word “sats” is both of its pieces, a quoted 3 is the token “3”
    assert edges_from_text(text, TOKENS) == ((0, 1), (1, 0), (4, 2), (4, 3))


def test_that_wrong_lines_are_told_by_their_numbers():
    with pytest.raises(UserError) as told:
        edges_from_text("0 1\n0 9\nfoo cat\n1 2 3\n4\n", TOKENS)
    words = str(told.value)
    for part in ("line 2: there is no token 9", "line 3: no token reads “foo”", "line 4", "line 5", "0 to 4"):
        assert part in words


def test_that_an_edge_list_is_made_symmetric_and_given_loops():
    plain = cells_from_edges([(0, 2)], 3, has_loops=False)
    assert rows_as_text(plain) == ("2", "", "")
    both = cells_from_edges([(0, 2)], 3, is_symmetric=True)
    assert rows_as_text(both) == ("0 2", "1", "0 2")


def test_that_the_stack_of_the_text_is_masked_and_no_other():
    def stacks(*names):
        return maskable_stack([Site(stack=s, layer=0, n_heads=1, n_kv_heads=1) for s in names])

    assert stacks("encoder", "decoder", "cross") == "encoder"
    assert stacks("decoder") == "decoder"
    assert stacks("cross", "decoder") is None
    assert stacks("cross") is None
