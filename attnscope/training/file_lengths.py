"""How long the texts of a file are, in tokens, before any tokenizer has been made: an estimate for plans.

Four stretches of the file are read; the kind of the tokenizer says how many tokens a text may have.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import LoadError
from attnscope.outside import open_outside
from attnscope.schemes.tokenizers import KINDS
from attnscope.training.recipe import Recipe

_N_STRETCHES, _STRETCH_BYTES = 4, 65_536
_OF_LINES = frozenset({"pairs", "labelled", "spans"})
"""The kinds of data that have a text on each line, or two with a tab between them."""

Lengths = NDArray[np.int64]


def file_lengths(recipe: Recipe) -> Lengths | None:
    """Tokens of some texts of the recipe's file, shuffled, of two the longer; None without such a file."""
    if recipe.data.kind not in _OF_LINES or not recipe.data.path:
        return None
    path = Path(recipe.data.path)
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    tokenizer = recipe.tokenizer
    found = _lengths(str(path), (stat.st_mtime_ns, stat.st_size), tokenizer.kind, tokenizer.vocab_size)
    return found if len(found) else None


@lru_cache(maxsize=32)
def _lengths(path: str, signature: tuple[int, int], kind: str, vocab_size: int) -> Lengths:
    found: list[int] = []
    try:
        with open_outside(Path(path), expected="a text file") as stream:
            for k in range(_N_STRETCHES):
                start = k * signature[1] // _N_STRETCHES
                stream.seek(start)
                lines = stream.read(_STRETCH_BYTES).split(b"\n")
                # The first and the last line may be parts of lines.
                found += [_tokens(line, kind, vocab_size) for line in lines[bool(start) : -1] if line.strip()]
    except (LoadError, OSError):
        return np.empty(0, dtype=np.int64)
    lengths = np.array(found, dtype=np.int64)
    return np.random.default_rng(0).permutation(lengths)  # as batches draw them, however the file is sorted


def _tokens(line: bytes, kind: str, vocab_size: int) -> int:
    """Of the longer text of a line, with the token that ends it."""
    texts = line.decode("utf-8", errors="replace").replace("|||", "\t").split("\t")[:2]
    return 1 + max(KINDS[kind].n_tokens(text.strip(), vocab_size) for text in texts)
