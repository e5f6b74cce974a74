"""What a trained model is measured by before it goes into a model card, on texts it never saw.

Causal: induction and previous-token heads on random words repeated. Translation: how many held-out
sentences come out word for word, and how well cross-attention aligns words with the known links.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.gold_links import AlignedPair
from attnscope.analysis.measuring import measure_texts
from attnscope.analysis.word_alignment import measure_alignment
from attnscope.models.model import Model
from attnscope.records.intervals import with_interval
from attnscope.records.loss_units import loss_unit
from attnscope.records.measures import HeadTable, order_heads
from attnscope.records.training import Evaluated
from attnscope.records.word_tables import AlignmentTable
from attnscope.text.examples import Example
from attnscope.text.repeats import repeated_random_ids, word_ids
from attnscope.text.tasks import make_task

_SEED = 2017
_N_ROWS, _N_WORDS = 32, 25
_N_SENTENCES, _N_ALIGNED = 500, 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Exactness:
    """Held-out sentences translated greedily: how many come out word for word, and the others."""

    n_sentences: int
    wrong: tuple[tuple[str, str, str], ...]

    @property
    def share(self) -> float:
        """The share that is exact, 0…1."""
        return 1.0 - len(self.wrong) / self.n_sentences


def measure_exactness(model: Model, examples: Sequence[Example]) -> Exactness:
    """Translate each source; what differs from its target is kept as source, expected, written."""
    tokenizer = model.own.vocabulary
    expected = [tokenizer.decode(ids) for ids in tokenizer.encode_lines(e.target or "" for e in examples)]
    written = [
        (e.source, target, model.generate(e.source)) for e, target in zip(examples, expected, strict=True)
    ]
    wrong = tuple(triple for triple in written if triple[1] != triple[2])
    return Exactness(n_sentences=len(written), wrong=wrong)


def repeated_rows(model: Model) -> NDArray[np.int64]:
    """Rows of `<s>` and random words twice, of those that training never sees."""
    words = word_ids(model.own.vocabulary)
    n_words = min(_N_WORDS, len(words), (model.own.config.max_tokens - 1) // 2)
    return repeated_random_ids(
        words,
        n=_N_ROWS,
        n_tokens=2 * n_words + 1,
        seed=_SEED,
        held_out=True,
        begin_id=model.own.vocabulary.begin_id,
    )


def sentences_about(
    model: Model, last: Evaluated | None, characters_per_token: float, held_out: str = ""
) -> tuple[str, ...]:
    """The measured results in sentences for the model card; `held_out` says what the loss is of."""
    sentences = []
    if last is not None:
        unit, is_of_labels = loss_unit([model.info.objective]), bool(model.own.card.labels)
        perplexity = "" if is_of_labels else f" (perplexity {math.exp(min(last.loss, 700.0)):.2f})"
        scored = "labels" if is_of_labels else "scored tokens"
        sentences.append(
            f"Validation loss {last.loss:.4f} {unit}{perplexity}, {last.accuracy:.1%} of the {scored} right."
        )
    if last is not None and model.info.objective == "causal" and characters_per_token > 0:
        sentences.append(
            f"A held-out token has {characters_per_token:.2f} characters, so this is "
            f"{last.loss / characters_per_token:.4f} nats per character{held_out and f', on {held_out}'}."
        )
    match model.info.objective:
        case "causal":
            sentences += _about_repeats(model)
        case "translation" if model.own.card.training.get("task") == "english-french":
            sentences += _about_translation(model)
    return tuple(sentences)


def _about_repeats(model: Model) -> list[str]:
    rows = repeated_rows(model)
    texts = [model.own.vocabulary.decode(row[1:]) for row in rows.tolist()]
    table = measure_texts(model, texts).table
    n_words = (rows.shape[1] - 1) // 2
    return [
        "- Induction score (mean weight on the token after the same one before, on random tokens written "
        f"twice; Olsson et al. 2022): {_best_heads(table, 'stripe')}.",
        f"- Weight on the previous token, on rows of {n_words} random words written twice, never seen in "
        f"training: {_best_heads(table, 'previous')}.",
    ]


def _best_heads(table: HeadTable, measure: str, n: int = 3) -> str:
    best = [table.heads[row] for row in order_heads(table, measure)[:n]]
    found = [table.estimate(head, measure) for head in best]
    said = ", ".join(
        f"{head.label} {with_interval(one.value, one.low, one.high, 3)}"
        for head, one in zip(best, found, strict=True)
    )
    return f"{said}; {found[0].basis}"


def _about_translation(model: Model) -> list[str]:
    task = make_task("english-french")
    exact = measure_exactness(model, task.examples(_N_SENTENCES, seed=_SEED, held_out=True))
    return [
        f"{exact.share:.1%} of {exact.n_sentences} held-out sentences are translated word for word.",
        f"On {_N_ALIGNED:,} held-out sentences, drawn with seed {_SEED}:",
        *about_alignment(model, task.examples(_N_ALIGNED, seed=_SEED, held_out=True)),
    ]


def about_alignment(model: Model, examples: Sequence[Example]) -> list[str]:
    """How well cross-attention aligns words with the known links, one sentence for each meaning of a row."""
    pairs = [
        AlignedPair(source=example.source, target=example.target or "", sure=frozenset(example.links))
        for example in examples
    ]
    sentences = []
    for rows, meaning in (("predicting", "that predicts it"), ("reading", "that has just read it")):
        table = list(measure_alignment(model, pairs, rows=rows))[-1]
        if not isinstance(table, AlignmentTable):
            raise AssertionError("unreachable: the last thing an alignment gives is its table")
        n_heads = len(table.heads)
        head = int(np.nanargmin(table.error_rate[:n_heads]))
        layer = n_heads + int(np.nanargmin(table.error_rate[n_heads:]))
        best_head, best_layer = (
            f"{table.label(at)} "
            + with_interval(float(table.error_rate[at]), float(table.low[at]), float(table.high[at]), 4)
            for at in (head, layer)
        )
        sentences.append(
            f"- Alignment error rate, a word aligned by the row {meaning}: best head {best_head}, best layer "
            f"{best_layer}; {table.interval_said}."
        )
    return sentences
