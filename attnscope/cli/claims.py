"""What a trained model is measured by before it goes into a model card, on texts it never saw.

Causal: induction and previous-token heads on random words repeated. Translation: how many held-out
sentences come out word for word, and how well cross-attention aligns words with the known links.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.scores import cross_alignment, induction_scores, previous_scores
from attnscope.models.model import Model
from attnscope.records.loss_units import loss_unit
from attnscope.records.training import Evaluated
from attnscope.text.examples import Example
from attnscope.text.repeats import repeated_random_ids, word_ids
from attnscope.text.tasks import make_task

_SEED = 2017
_N_ROWS, _N_WORDS = 32, 25
_N_SENTENCES = 500


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


def sentences_about(model: Model, last: Evaluated | None, characters_per_token: float) -> tuple[str, ...]:
    """The measured results in sentences for the model card."""
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
            f"{last.loss / characters_per_token:.4f} nats per character."
        )
    match model.info.objective:
        case "causal":
            sentences += _about_repeats(model)
        case "translation" if model.own.card.training.get("task") == "english-french":
            sentences += _about_translation(model)
    return tuple(sentences)


def _about_repeats(model: Model) -> list[str]:
    rows = repeated_rows(model)
    n_words = (rows.shape[1] - 1) // 2
    return [
        f"On {len(rows)} rows of {n_words} random words written twice, never seen in training:",
        f"- induction stripe (mean weight on the word after the same one before): "
        f"{_best_heads(model, induction_scores(model, rows, n_first=1))};",
        f"- weight on the previous token: {_best_heads(model, previous_scores(model, rows))}.",
    ]


def _best_heads(model: Model, scores: NDArray[np.float32], n: int = 3) -> str:
    order = np.argsort(-np.nan_to_num(scores, nan=-1.0), axis=None)[:n]
    places = [np.unravel_index(i, scores.shape) for i in order]
    return ", ".join(f"L{model.sites[site].layer}H{head} {scores[site, head]:.3f}" for site, head in places)


def _about_translation(model: Model) -> list[str]:
    examples = make_task("english-french").examples(_N_SENTENCES, seed=_SEED, held_out=True)
    exact = measure_exactness(model, examples)
    sentences = [f"{exact.share:.1%} of {exact.n_sentences} held-out sentences are translated word for word."]
    for rows, meaning in (("predicting", "that predicts it"), ("reading", "that has just read it")):
        scores = cross_alignment(model, examples, "predicting" if rows == "predicting" else "reading")
        layer = int(np.nanargmin(scores.layers))
        at, head = np.unravel_index(int(np.nanargmin(scores.heads)), scores.heads.shape)
        sentences.append(
            f"- Alignment error rate, a word aligned by the row {meaning}: best head L{at}H{head} "
            f"{scores.heads[at, head]:.4f}, best layer mean L{layer} {scores.layers[layer]:.4f}."
        )
    return sentences
