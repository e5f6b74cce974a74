"""BLEU (Papineni et al. 2002), as sacrebleu counts it (Post 2018), with an interval over texts.

| symbol | meaning                                                                      | shape         |
|--------|------------------------------------------------------------------------------|---------------|
| counts | matched n-grams of 1…4, n-grams of 1…4, lengths of hypothesis and reference  | [n_texts, 10] |

    BLEU = 100 · min(1, exp(1 − r / c)) · exp(¼ Σ ln(matched_n / n-grams_n))

with c and r the lengths in words of all hypotheses and references. It is a number of the whole corpus, not
a mean over texts: an interval comes from drawing texts again and counting anew. Zero matches of a length
are smoothed as sacrebleu does by default (`exp`). Case counts; words are split as by mteval-v13a.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.bootstrap import interval_of_sums
from attnscope.counting import plural, there_are
from attnscope.errors import UserError

Counts = NDArray[np.float64]
N_COUNTS = 10
_ORDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BleuScore:
    """BLEU of a corpus, 0…100, with the ends of its 95 % interval.

    `brevity` is the factor for hypotheses that are shorter than their references, 1 when they are not:
    `n_words` and `n_right_words` are their words, c and r.
    `signature` names sacrebleu's version and settings, as a paper has to.
    """

    value: float
    low: float
    high: float
    precisions: tuple[float, ...]
    brevity: float
    n_texts: int
    signature: str
    n_words: int = 0
    n_right_words: int = 0


def bleu(
    hypotheses: Sequence[str], references: Sequence[str | Sequence[str]], *, has_interval: bool = True
) -> BleuScore:
    """BLEU of texts against one reference each, or several, of which each n-gram may stand in any.

    Without an interval its ends are NaN. Raises UserError without sacrebleu or for no texts.
    """
    if len(hypotheses) != len(references) or not references:
        raise UserError(
            f"{there_are(len(hypotheses), 'text')} and {plural(len(references), 'reference')}.",
            expected="as many references as texts, and at least one",
            action="Give a reference for each text.",
        )
    right = [[one] if isinstance(one, str) else list(one) for one in references]
    low = high = math.nan
    counter = _counter(is_whole=True)
    streams = list(zip_longest(*right))  # sacrebleu's order, None where a text has no more references
    whole = counter.corpus_score(list(hypotheses), streams)
    if has_interval:
        pairs = zip(hypotheses, right, strict=True)
        counts = np.stack([count_ngrams(text, *several) for text, several in pairs])
        low, high = interval_of_sums(counts, bleu_of, limits=(0.0, 100.0))
    return BleuScore(
        value=float(whole.score),
        low=low,
        high=high,
        precisions=tuple(float(p) for p in whole.precisions),
        brevity=float(whole.bp),
        n_texts=len(references),
        signature=str(counter.get_signature()),
        n_words=int(whole.sys_len),
        n_right_words=int(whole.ref_len),
    )


def require_counter() -> None:
    """Raise UserError where BLEU cannot be counted, before anything is translated for it."""
    _counter()


def count_ngrams(hypothesis: str, *references: str) -> Counts:
    """What one text adds to the sums, [10]; its length is held against the reference nearest in length."""
    scored = _counter().sentence_score(hypothesis, list(references))
    return np.array([*scored.counts, *scored.totals, scored.sys_len, scored.ref_len], dtype=np.float64)


def by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    n_words: int,
) -> list[tuple[int, int, BleuScore]]:
    """The BLEU of texts whose sources have from 1 to `n_words` words, and so on: least, most, score.

    Words are what stands between spaces. Texts without a reference, and parts without a text, are left out
    (Bahdanau et al. 2014, figure 2).
    """
    parts: dict[int, list[int]] = {}
    for index, (source, right) in enumerate(zip(sources, references, strict=True)):
        if any(one.strip() for one in right):
            parts.setdefault((max(1, len(source.split())) - 1) // n_words, []).append(index)
    found = []
    for part, own in sorted(parts.items()):
        told = [[one for one in references[index] if one.strip()] for index in own]
        score = bleu([hypotheses[index] for index in own], told)
        found.append((part * n_words + 1, (part + 1) * n_words, score))
    return found


def matched_ngrams(
    hypothesis: str, references: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[bool, ...], ...]]:
    """The words of a text as they are counted, and for n = 1 … 4 which n-gram that begins at each is matched.

    An n-gram counts as often as a reference has it, from the left (Papineni et al. 2002, section 2.1).
    """
    split = _counter().tokenizer
    words, others = split(hypothesis).split(), [split(one).split() for one in references]
    found = []
    for n in range(1, _ORDER + 1):
        left: Counter[tuple[str, ...]] = Counter()
        for other in others:
            left |= Counter(_ngrams(other, n))
        row = []
        for gram in _ngrams(words, n):
            row.append(left[gram] > 0)
            left[gram] -= row[-1]
        found.append(tuple(row))
    return tuple(words), tuple(found)


def _ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def bleu_of(sums: Counts) -> NDArray[np.float64]:
    """BLEU of summed counts [..., 10]; NaN where no text was counted."""
    flat = sums.reshape(-1, N_COUNTS)
    scores = [_compute(row).score if row[-1] else np.nan for row in flat]
    return np.array(scores, dtype=np.float64).reshape(sums.shape[:-1])


def _compute(sums: Counts) -> Any:
    numbers = [round(value) for value in sums.tolist()]
    matched, n_grams = numbers[:_ORDER], numbers[_ORDER : 2 * _ORDER]
    return _counter().compute_bleu(matched, n_grams, numbers[-2], numbers[-1], smooth_method="exp")


@cache
def _counter(*, is_whole: bool = False) -> Any:
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise UserError(
            "BLEU is computed by the library sacrebleu, which is not installed.",
            expected="sacrebleu 2",
            action='Install it with: python -m pip install "sacrebleu>=2.4,<3"',
        ) from error
    # Of a single text sacrebleu wants the effective order; its counts are the same.
    return BLEU(effective_order=not is_whole)
