"""Memory tokens: learned vectors in front of a text, read and written like its tokens (Burtsev et al. 2020).

| symbol | meaning                                                        | shape              |
|--------|----------------------------------------------------------------|--------------------|
| m      | what is learned                                                | [n_memory, d_model]|
| ids    | vocab_size … vocab_size + n_memory − 1, then those of the text | [batch, n_tokens]  |

In an encoder they read the text and the text reads them (their section 3.1); in a decoder, where nothing sees
what follows, only the text reads them: the soft prompt of Lester et al. 2021. They have no position of their
own, and the text has those that it would have without them; where positions are told by distance, they stand
in front.
"""

from dataclasses import replace

from torch import Tensor

from attnscope.records.tokens import Token, Tokens


def n_memory_ids(ids: Tensor, vocab_size: int) -> int:
    """How many memory tokens stand in front of texts, [batch, n_tokens]; all have the same number."""
    return int((ids[0] >= vocab_size).sum())


def memory_ids(vocab_size: int, n_memory: int) -> range:
    """The ids of memory tokens: those that no piece has."""
    return range(vocab_size, vocab_size + n_memory)


def memory_piece(id: int, vocab_size: int) -> str:
    """What the memory token of an id is called: `<m1>`, `<m2>` …"""
    return f"<m{id - vocab_size + 1}>"


def behind_memory(text: Tokens, vocab_size: int, n_memory: int) -> Tokens:
    known = tuple(
        Token(id=id, piece=memory_piece(id, vocab_size), is_special=True)
        for id in memory_ids(vocab_size, n_memory)
    )
    return replace(text, tokens=(*known, *text.tokens))
