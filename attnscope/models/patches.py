"""The tokens of a model of pictures: special ones first (a class token, registers), then the patches line by
line, written `row,column`.
"""

import re

from attnscope.records.tokens import Token, Tokens

_FIRST_NAMES = ("CLS", "DIST")
_PATCH = re.compile(r"(\d{1,4}),(\d{1,4})")
MAX_FIRST = 64
"""The most tokens before the patches that are taken for special ones."""


def patch_tokens(text: str, grid: tuple[int, int], n_tokens: int) -> Tokens:
    """Tokens for a sequence of `n_tokens`: what stands before the patches, then `row,column` of each.

    Where the sequence is no grid with something before it, the tokens are numbered.
    """
    n_rows, n_columns = grid
    n_first = n_tokens - n_rows * n_columns
    if not 0 <= n_first <= MAX_FIRST:
        numbered = tuple(Token(id=i, piece=str(i)) for i in range(n_tokens))
        return Tokens(text=text, tokens=numbered)
    names = [*_FIRST_NAMES[:n_first], *(f"REG{i}" for i in range(n_first - len(_FIRST_NAMES)))]
    if n_first > len(_FIRST_NAMES):
        names = ["CLS", *(f"REG{i}" for i in range(n_first - 1))]
    first = tuple(Token(id=i, piece=f"[{name}]", is_special=True) for i, name in enumerate(names))
    patches = tuple(
        Token(id=n_first + row * n_columns + column, piece=f"{row},{column}")
        for row in range(n_rows)
        for column in range(n_columns)
    )
    return Tokens(text=text, tokens=first + patches)


def patch_grid(source: Tokens) -> tuple[int, int] | None:
    """Rows and columns of the patches that `patch_tokens` made tokens of; None for other tokens."""
    last = _PATCH.fullmatch(source.tokens[-1].piece) if len(source) else None
    if last is None:
        return None
    grid = int(last[1]) + 1, int(last[2]) + 1
    n_tokens = len(source)
    is_right = grid[0] * grid[1] <= n_tokens and patch_tokens("", grid, n_tokens).pieces == source.pieces
    return grid if is_right else None
