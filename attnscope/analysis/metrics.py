"""The quality of a model with some heads off: loss, accuracy, exact match, alignment error, BLEU.

Each metric is made of sums over texts, so that its interval comes from drawing texts again. BLEU is that
of greedy translations; the others are ratios:

    metric            of one text, above the line           below the line
    loss              summed cross-entropy, nats            scored tokens
    accuracy          scored tokens told first              scored tokens
    exact-match       1 when all its tokens are told first  1
    alignment-error   |A| + |S| − |A∩S| − |A∩P|             |A| + |S|

Tokens are told with the right ones before them given. For exact match that is no help: writing greedily
gives the right text if and only if every token is told first. The alignment error rate is Och and Ney's
(2003), of the mean over the heads that are on of the cross-attention layer which aligns best with every
head on; S are the sure and P the possible gold links.

How well a model tells a text of any length: nats a token, and of a causal model nats a character.

The text is cut between words into windows that the model can read, each a text by itself: what stands in
one is told from what stands in the same one. A causal model tells every token, a masked one a
fixed share that is hidden. Characters are those of the tokens told, line ends among them, so that models of
other vocabularies compare.

BLEU (Papineni et al. 2002), as sacrebleu counts it (Post 2018), with an interval over texts.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.analysis.batches import (
    MASK_SEED,
    MASK_SHARE,
    NOT_SCORED,
    Sample,
    build_batches,
    hidden_batches,
    scored_logits,
    token_losses,
)
from attnscope.analysis.bootstrap import interval_of_sums
from attnscope.analysis.model_adapter import Subject, TokenBatch, gate_probe, telling_subject
from attnscope.analysis.words import AlignedPair, Link, find_spans, word_maps
from attnscope.counting import listed, plural, there_are
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.models.writing.translating import translate_texts
from attnscope.nn.machine import exact
from attnscope.records.importance import METRICS, MetricName
from attnscope.records.sites import NO_GATES, Gates, Site
from attnscope.records.tokens import Token, Tokens
from attnscope.text import Example, is_of_word
from attnscope.trace import Trace, weights_to_sum

Counts = NDArray[np.float64]
"""Contribution of each text to the sums, [n_texts, n_sums]."""
N_COUNTS = 10
_ORDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BleuScore:
    """BLEU of a corpus, 0…100, with the ends of its 95 % interval.

    `brevity` is the factor for hypotheses that are shorter than their references, 1 when they are not:
    `n_words` and `n_right_words` are their words, c and r.
    `signature` names sacrebleu's version and settings, as a paper has to.
    `value` is NaN where neither texts nor references have four words: there are no 4-grams to be matched, and
    a perfect text would have sacrebleu's 0. So are the precisions of n-grams that no text has then.
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
    """BLEU of texts against one reference each, or several, any of which may contain an n-gram.

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
    split = counter.tokenizer
    is_short = not whole.totals[-1] and all(
        len(split(one).split()) < _ORDER for several in right for one in several
    )
    pairs_of_n = zip(whole.precisions, whole.totals, strict=True)
    return BleuScore(
        value=math.nan if is_short else float(whole.score),
        low=low,
        high=high,
        precisions=tuple(math.nan if is_short and not n else float(p) for p, n in pairs_of_n),
        brevity=float(whole.bp),
        n_texts=len(references),
        signature=str(counter.get_signature()),
        n_words=int(whole.sys_len),
        n_right_words=int(whole.ref_len),
    )


def require_counter() -> None:
    """Raise UserError if BLEU cannot be computed, before anything is translated for it."""
    _counter()


def count_ngrams(hypothesis: str, *references: str) -> Counts:
    """N-gram counts of one text, [10]; its length is compared with the reference nearest in length."""
    scored = _counter().sentence_score(hypothesis, list(references))
    return np.array([*scored.counts, *scored.totals, scored.sys_len, scored.ref_len], dtype=np.float64)


def by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    n_words: int,
) -> list[tuple[int, int, BleuScore]]:
    """BLEU of the texts whose sources have 1 to `n_words` words, and so on: least, most, score.

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
    """The words of a text as counted, and for n = 1 … 4 which n-gram that begins at each is matched.

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


@dataclass(frozen=True, slots=True)
class Metric:
    """`count` gives the counts of a few texts with some gates; `value` turns sums into numbers.

    `value` takes sums [..., n_sums] and gives [...], within `limits`; NaN where nothing was counted.
    """

    count: Callable[[Gates], Iterator[Counts]]
    value: Callable[[Counts], NDArray[np.float64]]
    limits: tuple[float, float] = (0.0, 1.0)

    def of(self, gates: Gates) -> float:
        return float(self.value(np.concatenate(list(self.count(gates))).sum(axis=0)))


def ratio_of(sums: Counts) -> NDArray[np.float64]:
    """The first sum over the second."""
    return np.asarray(np.divide(sums[..., 0], np.where(sums[..., 1] == 0, np.nan, sums[..., 1])))


def make_metric(
    name: MetricName, model: Model, subject: Subject, batches: Sequence[TokenBatch], samples: Sequence[Sample]
) -> Metric:
    """The metric of that name over the texts; raises UserError for one that does not apply to them."""
    if name not in MEASURED_BY:
        raise UserError(
            f"There is no metric '{name}'.",
            expected=listed(list(METRICS), "or"),
            action="Choose one of these.",
        )
    return replace(MEASURED_BY[name](model, subject, batches, samples), limits=(0.0, METRICS[name].most))


def _by_batch(
    model: Model,
    subject: Subject,
    batches: Sequence[TokenBatch],
    samples: Sequence[Sample],
    count: Callable[[Subject, TokenBatch, Gates], Counts],
) -> Metric:
    return Metric(lambda gates: (count(subject, batch, gates) for batch in batches), ratio_of)


def _loss(subject: Subject, batch: TokenBatch, gates: Gates) -> Counts:
    with subject.studying():
        losses = exact(token_losses(subject, batch, gate_probe(subject, gates))).sum(dim=1)
    return np.stack([losses.cpu().numpy(), _n_scored(batch)], axis=1)


def _hits(subject: Subject, batch: TokenBatch, gates: Gates, *, is_whole: bool) -> Counts:
    n_hits, n_scored = _told_first(subject, batch, gates).sum(axis=1), _n_scored(batch)
    both = (n_hits == n_scored, np.ones(len(n_scored))) if is_whole else (n_hits, n_scored)
    return np.stack(both, axis=1).astype(np.float64)


def _told_first(subject: Subject, batch: TokenBatch, gates: Gates) -> NDArray[np.bool_]:
    """Whether the right token is the most probable one: [n_texts, n_tokens]."""
    with subject.studying():
        logits, labels, is_scored = scored_logits(subject, batch, gate_probe(subject, gates))
        is_right = torch.zeros_like(is_scored).masked_scatter(is_scored, logits.argmax(dim=-1) == labels)
    return is_right.cpu().numpy()


def _n_scored(batch: TokenBatch) -> NDArray[np.float64]:
    return (batch.labels != NOT_SCORED).sum(dim=1).cpu().double().numpy()


# -- alignment ------------------------------------------------------------------------------------


def _alignment_metric(
    model: Model, _: Subject, __: Sequence[TokenBatch], samples: Sequence[Sample]
) -> Metric:
    pairs = [pair for pair in (_aligned(sample) for sample in samples) if pair is not None]
    sites = [site for site in model.sites if site.stack == "cross"]
    if not sites or not pairs:
        raise UserError(
            "There is no alignment to measure.",
            expected="a translation model, and texts with gold links",
            action="Choose another metric.",
        )
    metrics = [_alignment_of(model, site, pairs) for site in sites]
    return min(metrics, key=lambda metric: metric.of(NO_GATES))


def _alignment_of(model: Model, site: Site, pairs: Sequence[AlignedPair]) -> Metric:
    return Metric(lambda gates: (_count(model, site, pair, gates) for pair in pairs), ratio_of)


def _aligned(sample: Sample) -> AlignedPair | None:
    if isinstance(sample, AlignedPair):
        return sample
    if not isinstance(sample, Example) or sample.target is None or not sample.links:
        return None
    return AlignedPair(source=sample.source, target=sample.target, sure=frozenset(sample.links))


def _count(model: Model, site: Site, pair: AlignedPair, gates: Gates) -> Counts:
    is_on = np.array([gates.value(head) != 0.0 for head in site.heads])
    found = _links(model.trace(*pair.texts, gates), site, is_on, pair)
    n = len(found) + len(pair.sure)
    n_right = len(found & pair.sure) + len(found & (pair.sure | pair.possible))
    return np.array([[float(n - n_right), float(n)]])


def _links(trace: Trace, site: Site, is_on: NDArray[np.bool_], pair: AlignedPair) -> set[Link]:
    """Links of the target words, each from the row that predicts it; none when every head is off."""
    queries, keys = trace.tokens(site)
    if trace.target is None or not is_on.any():
        return set()
    spans = [
        find_spans(text, words.split()) or []
        for text, words in ((trace.target.text, pair.target), (trace.source.text, pair.source))
    ]
    maps = word_maps(queries, spans[0], keys, spans[1], shift=1)
    mean = weights_to_sum(trace.records[site.key])[torch.from_numpy(is_on)].mean(dim=0).cpu()
    return set(head_alignment((maps.to_query @ mean @ maps.to_key.T).numpy()))


def head_alignment(weights: NDArray[np.float32]) -> tuple[Link, ...]:
    """The source column with the largest weight for each target row; rows that see nothing have no link."""
    if weights.size == 0:
        return ()
    filled = np.where(np.isnan(weights), -1.0, weights)
    best = filled.argmax(axis=1)
    return tuple((i, int(j)) for i, j in enumerate(best) if filled[i, j] > 0)


# -- BLEU -----------------------------------------------------------------------------------------


def _bleu_metric(model: Model, _: Subject, __: Sequence[TokenBatch], samples: Sequence[Sample]) -> Metric:
    pairs = [pair for pair in (_reference(model, sample) for sample in samples) if pair is not None]
    if model.network.output_kind != "translation" or not pairs:
        raise UserError(
            "There is no translation to compare.",
            expected="a translation model, and texts with their translations",
            action="Choose another metric.",
        )
    if all(len(_counter().tokenizer(right).split()) < _ORDER for _, right in pairs):
        raise UserError(
            "No translation has 4 words, and BLEU matches up to 4 in a row.",
            expected="some longer texts",
            action="Give others, or choose another metric.",
        )
    sources = [source for source, _ in pairs]

    def count(gates: Gates) -> Iterator[Counts]:
        for written in translate_texts(model, sources, gates=gates):
            yield count_ngrams(written.text, pairs[written.index][1])[None]

    return Metric(count, bleu_of)


MEASURED_BY: dict[MetricName, Callable[[Model, Subject, Sequence[TokenBatch], Sequence[Sample]], Metric]] = {
    "loss": partial(_by_batch, count=_loss),
    "accuracy": partial(_by_batch, count=partial(_hits, is_whole=False)),
    "exact-match": partial(_by_batch, count=partial(_hits, is_whole=True)),
    "alignment-error": _alignment_metric,
    "bleu": _bleu_metric,
}
"""How each metric is computed."""


def _reference(model: Model, sample: Sample) -> tuple[str, str] | None:
    """Source and reference; those of a task are tokens separated by spaces, as the model generates them."""
    if isinstance(sample, str):
        return None
    if isinstance(sample, tuple):
        return sample
    if sample.target is None:
        return None
    if not isinstance(sample, Example):
        return sample.texts
    read = model.network.encode(sample.source, sample.target).target
    return sample.source, sample.target if read is None else model.network.vocabulary.decode(read.ids)


# How many hidden words a masked model guesses: all pieces of a word hidden, and all of them told first.


def hidden_words_right(
    model: Model, subject: Subject, texts: Sequence[str], gates: Gates
) -> NDArray[np.float64]:
    """Number of hidden words predicted right in each text, and of all hidden: [n_texts, 2]."""
    rng = np.random.default_rng(MASK_SEED)
    inputs = [model.encode(text) for text in texts]
    hidden = [_drawn(list(_words(one.source.tokens)), rng) for one in inputs]
    batches = hidden_batches(model, inputs, [[place for word in words for place in word] for words in hidden])
    counts, of_text = np.zeros((len(texts), 2)), iter(range(len(texts)))
    for batch in batches:
        for row in _told_first(subject, batch, gates):
            k = next(of_text)
            counts[k] = sum(bool(row[list(word)].all()) for word in hidden[k]), len(hidden[k])
    return counts


def _drawn(words: Sequence[range], rng: np.random.Generator) -> list[range]:
    draw = rng.random(len(words))
    return [word for word, x in zip(words, draw, strict=True) if x < MASK_SHARE or x == draw.min()]


def _words(tokens: Sequence[Token]) -> Iterator[range]:
    start = None
    for i, token in enumerate(tokens):
        is_word = not token.is_special and is_of_word(token.piece[:1])
        goes_on = is_word and token.joins_previous and i > 0 and is_of_word(tokens[i - 1].piece[-1:])
        if start is not None and not goes_on:
            yield range(start, i)
            start = None
        if start is None and is_word:
            start = i
    if start is not None:
        yield range(start, len(tokens))


_MOST_KEPT_WHOLE = 1024
_CHARACTERS_PER_TOKEN = 16
"""More than a window is ever filled with, so that no text is encoded again and again to its end."""
Estimate = tuple[float, float, float]
"""A value with its interval over windows, which is NaN for too few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTold:
    """Means over the predicted tokens; `per_character` is None unless every token is predicted.

    `words` is a masked model's share of hidden words that are right with all their pieces.
    """

    n_windows: int
    n_tokens: int
    n_characters: int
    per_token: Estimate
    per_character: Estimate | None
    accuracy: Estimate
    words: Estimate | None


def tell_text(model: Model, text: str, gates: Gates = NO_GATES) -> TextTold:
    """The losses of a text in nats, and the share of tokens that the model ranks first.

    Raises UserError for a translation model, one that tells no tokens, and a text with nothing to be told.
    """
    if model.info.form == "encoder-decoder":
        raise UserError(
            f"The model {model.info.name} translates: it does not model running text.",
            expected="a causal or a masked model",
            action="Compute BLEU with attnscope translate, or open another model.",
        )
    subject = telling_subject(model, needs_gates=bool(gates))
    windows = list(_windows(model, text)) or [text]
    batches = [batch for window in windows for batch in build_batches(model, [window])]
    losses, hits = (
        np.concatenate(list(make_metric(name, model, subject, batches, windows).count(gates)))
        for name in ("loss", "accuracy")
    )
    n_characters = np.array([_characters(model.encode(window).source) for window in windows], np.float64)
    is_causal = model.info.form == "decoder"
    return TextTold(
        n_windows=len(windows),
        n_tokens=int(losses[:, 1].sum()),
        n_characters=int(n_characters.sum()),
        per_token=_estimate(losses),
        per_character=_estimate(np.stack([losses[:, 0], n_characters], axis=1)) if is_causal else None,
        accuracy=_estimate(hits, 1.0),
        words=None if is_causal else _estimate(hidden_words_right(model, subject, windows, gates), 1.0),
    )


def most_read(model: Model) -> int:
    """Most tokens in a part: what the model reads, or fewer if its own code keeps all weights."""
    most = model.info.max_tokens
    return most if model.info.has_gates else min(most, _MOST_KEPT_WHOLE)


def _windows(model: Model, text: str) -> Iterator[str]:
    """The text in parts that the model can read, cut before words, if they have anything to predict."""
    rest, n_read = text, most_read(model)
    most = _CHARACTERS_PER_TOKEN * n_read
    while rest:
        source = model.encode(rest[:most]).source
        window = source.read_text if len(source.tokens) <= n_read else rest[: source.tokens[n_read - 1].end]
        n = len(window)
        if 0 < n < len(rest) and not (rest[n - 1].isspace() or rest[n].isspace()):  # within a word
            window = window[: -len(window.split()[-1])].rstrip(" ") or window
        if _n_told(source) > 0:
            yield window
        rest = rest[len(window) or most :]


def _n_told(source: Tokens) -> int:
    return sum(not token.is_special for token in source.tokens[1:])


def _characters(source: Tokens) -> int:
    """Number of characters of the predicted tokens: all but a first token without context."""
    first = next(iter(source.tokens), None)
    return len(source.read_text) - (0 if first is None or first.is_special else first.end)


def _estimate(counts: NDArray[np.float64], most: float = math.inf) -> Estimate:
    return float(ratio_of(counts.sum(axis=0))), *interval_of_sums(counts, ratio_of, limits=(0.0, most))
