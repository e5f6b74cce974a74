"""What rows and columns stand for, in models of one text and of two."""

import pytest

from attnscope.records import (
    STACKS,
    Axis,
    Site,
    Stack,
    Token,
    Tokens,
    axes_of,
    is_self_attention,
    tokens_of_site,
)
from attnscope.viewmodels import sides_of

SOURCE = Tokens(text="a b", tokens=(Token(id=4, piece="a"), Token(id=5, piece="b")), sentences=(1, 2))
TARGET = Tokens(text="c", tokens=(Token(id=6, piece="c"),))


def site(stack: Stack, **choices: object) -> Site:
    return Site(stack=stack, layer=0, n_heads=1, n_kv_heads=1, **choices)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stack", "axes", "alone"),
    [
        ("encoder", ("source", "source"), ("source", "source")),
        ("decoder", ("target", "target"), ("source", "source")),
        ("cross", ("target", "source"), ("source", "source")),
        ("pool", ("summary", "source"), ("summary", "source")),
        ("second", ("target", "target"), ("source", "source")),
        ("back", ("source", "target"), ("source", "source")),
        ("second-pool", ("summary", "target"), ("summary", "source")),
        ("sentence", ("sentences", "source"), ("sentences", "source")),
    ],
)
def test_that_every_stack_has_its_rows_and_columns(
    stack: Stack, axes: tuple[Axis, Axis], alone: tuple[Axis, Axis]
) -> None:
    assert axes_of(stack) == sides_of(stack, has_target=True) == axes
    assert axes_of(stack, has_target=False) == alone
    assert is_self_attention(site(stack)) == (axes[0] == axes[1])


def test_that_what_is_no_token_is_named_and_has_no_id_of_one() -> None:
    pieces = {
        stack: tuple(
            [token.piece for token in tokens] for tokens in tokens_of_site(site(stack), SOURCE, TARGET)
        )
        for stack in STACKS
    }
    assert pieces["cross"] == (["c"], ["a", "b"])
    assert pieces["back"] == (["a", "b"], ["c"])
    assert pieces["sentence"] == (["sentence 0", "sentence 1"], ["a", "b"])
    assert pieces["second-pool"] == (["summary"], ["c"])
    queries, keys = tokens_of_site(site("encoder", keys="slots", n_slots=3), SOURCE, None)
    assert ([key.piece for key in keys], len(queries)) == (["slot 1", "slot 2", "slot 3"], 2)
    assert all(key.id < 0 for key in keys)
    assert not is_self_attention(site("encoder", keys="slots", n_slots=3))
    assert tokens_of_site(site("pool", keys="sentences"), SOURCE, None)[1][1].piece == "sentence 1"
