"""How much a decision owes to each word: the word is replaced by the unknown token, and what changes counts.

| symbol     | meaning                                                     | shape     |
|------------|-------------------------------------------------------------|-----------|
| p          | probability of the right verb among the two verbs           | one number|
| importance | abs(p − p with the word blanked out)                        | [n_words] |
| ranks      | 1 for the smallest; equal values share their mean rank      | [n]       |

Blank-out as Abnar and Zuidema (2020, section 2) have it; Spearman's correlation is Pearson's of the ranks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.analysis.reading import read_text
from attnscope.analysis.subject import Batch, subject_of
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.nn.precision import exact
from attnscope.text.examples import Example


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One sentence before its verb: its words, the right and the wrong verb, the subject's place.

    `positions` are the tokens of the words, without the token before the first.
    """

    text: str
    right_id: int
    wrong_id: int
    positions: tuple[int, ...]
    subject: int


def decision_of(model: Model, example: Example, verbs: Sequence[str]) -> Decision:
    """The decision of an example of the agreement task; raises UserError for a model of other words."""
    words = example.source.split()
    text, right = " ".join(words[: example.n_given]), words[example.n_given]
    wrong = next(verb for verb in verbs if verb != right)
    tokens = model.encode(text).source.tokens
    positions = tuple(index for index, token in enumerate(tokens) if not token.is_special)
    right_ids, wrong_ids = (_ordinary_ids(model, word) for word in (right, wrong))
    if len(positions) != example.n_given or len(right_ids) != 1 or len(wrong_ids) != 1:
        raise UserError(
            f"{model.info.name} does not read the agreement task word by word.",
            expected="a causal model trained on the task agreement",
            action="Leave out --model, and the study trains its own.",
        )
    return Decision(
        text=text,
        right_id=right_ids[0],
        wrong_id=wrong_ids[0],
        positions=positions,
        subject=positions[example.links[0][1]],
    )


def blank_out(model: Model, decision: Decision) -> tuple[float, NDArray[np.float64]]:
    """The p of the whole sentence, and the importance of each word, [n_words]."""
    subject = subject_of(model)
    _, batch = read_text(model, decision.text)
    ids = batch.ids.repeat(len(decision.positions) + 1, 1)
    for row, position in enumerate(decision.positions, start=1):
        ids[row, position] = unknown_id(model)
    with subject.studying():
        hidden = subject.hidden(Batch(ids=ids, labels=torch.full_like(ids, -1)))
        logits = exact(subject.logits(hidden[:, -1]))
    p = (logits[:, decision.right_id] - logits[:, decision.wrong_id]).sigmoid().cpu().numpy()
    return float(p[0]), np.abs(p[0] - p[1:])


def unknown_id(model: Model) -> int:
    """The id of the token that stands for unknown words."""
    return model.own.vocabulary.unknown_id


def ranks_of(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The ranks of some numbers from 1 on; equal ones share the mean of theirs."""
    array = np.asarray(values, np.float64)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: NDArray[np.float64] = last - (counts - 1) / 2
    return means[inverse]


def spearman(xs: Sequence[float] | NDArray[np.float64], ys: Sequence[float] | NDArray[np.float64]) -> float:
    """The rank correlation of two rows of numbers; NaN where one of them is all alike."""
    x, y = ranks_of(xs), ranks_of(ys)
    x, y = x - x.mean(), y - y.mean()
    length = math.sqrt(float((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / length if length else math.nan


def _ordinary_ids(model: Model, word: str) -> list[int]:
    return [token.id for token in model.encode(word).source.tokens if not token.is_special]
