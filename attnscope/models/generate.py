"""Writing text greedily, in as few passes as possible.

Each pass reads a guess at the coming tokens and keeps those that the model would have written itself,
so the result is exactly that of one token at a time (the verification of Leviathan et al. 2023 with a
greedy choice). The first guess is the caller's: one that was right, such as the text before a head was
gated, costs one pass. Later ones continue what was written before as it went on the last time
(prompt lookup, Saxena 2023), or are the answers of the pass before (Jacobi decoding, Santilli et al. 2023).
"""

from collections.abc import Callable, Sequence

from attnscope.nn.long_work import stop_if_unwanted

N_GUESSES = 8
"""Tokens guessed ahead once the caller's guess has failed; each costs a little in every pass."""

NextTokens = Callable[[Sequence[int], int], list[int]]
"""(ids, n) → the most probable next token after each of the last n of `ids`."""
HearIds = Callable[[Sequence[int]], None]
"""Takes all ids that are written so far, where more are to come."""


def write_greedily(
    next_tokens: NextTokens,
    prefix: Sequence[int],
    *,
    n_tokens: int,
    end_id: int | None,
    guess: Sequence[int] = (),
    is_causal: bool = True,
    hear: HearIds | None = None,
) -> list[int]:
    """At most `n_tokens` ids that follow `prefix`, without the end token that may have stopped them.

    Where a model is not causal, what is guessed would change the answers before it: nothing is guessed then.
    `hear` gets what is written after each pass but the last.
    """
    written: list[int] = []
    coming = list(guess) or _look_up(prefix)
    while len(written) < n_tokens:
        stop_if_unwanted()
        coming = coming[: n_tokens - len(written) - 1] if is_causal else []
        answers = next_tokens([*prefix, *written, *coming], len(coming) + 1)
        n_right = next(
            (i for i, (a, b) in enumerate(zip(coming, answers, strict=False)) if a != b), len(coming)
        )
        accepted = answers[: n_right + 1]
        if end_id in accepted:
            return [*written, *accepted[: accepted.index(end_id)]]
        written += accepted
        if hear is not None and len(written) < n_tokens:
            hear(written)
        coming = _look_up([*prefix, *written]) or answers[n_right + 1 :][:N_GUESSES]
    return written


def _look_up(ids: Sequence[int]) -> list[int]:
    """How the text went on after its last token occurred before, repeated to N_GUESSES tokens; or nothing."""
    for start in range(len(ids) - 2, -1, -1):
        if ids[start] == ids[-1]:
            cycle = list(ids[start + 1 :])
            return (cycle * N_GUESSES)[:N_GUESSES]
    return []
