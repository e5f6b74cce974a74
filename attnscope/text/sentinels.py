"""Sentinels: the numbered special tokens that stand for hidden spans, <extra_0>, <extra_1>, …

A text with spans hidden and what was hidden are two texts (Raffel et al. 2020, figure 2):

    Thank you <extra_0> me to your party <extra_1> week
    <extra_0> for inviting <extra_1> last
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from tokenizers import Tokenizer as LibraryTokenizer

_NAME = re.compile(r"<extra_(\d{1,4})>")


def sentinel(number: int) -> str:
    """The literal of one sentinel."""
    return f"<extra_{number}>"


def sentinel_ids(library: LibraryTokenizer) -> dict[str, int]:
    """Literal and id of each sentinel that a tokenizer has, in the order of their numbers."""
    added = {token.content: id for id, token in library.get_added_tokens_decoder().items() if token.special}
    named = {name: id for name, id in added.items() if _NAME.fullmatch(name)}
    return dict(sorted(named.items(), key=lambda entry: int(entry[0][7:-1])))


def is_sentinel(piece: str) -> bool:
    """Whether a piece is the literal of a sentinel."""
    return _NAME.fullmatch(piece) is not None


def spans_of(ids: Sequence[int], sentinels: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Sentinel and what stands behind it, for each sentinel of a text of hidden spans."""
    known = frozenset(sentinels)
    starts = [i for i, id in enumerate(ids) if id in known]
    return [(ids[a], tuple(ids[a + 1 : b])) for a, b in pairwise([*starts, len(ids)])]
