"""How sure a causal model is of an answer after more and more examples in the same text, without
learning.

    b 3 d 0 b 3 a 5 d 0        examples of two words each, the last of which is the answer

An answer of several tokens has the product of their probabilities.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from attnscope.counting import fixed, plural
from attnscope.errors import UserError
from attnscope.fields import number
from attnscope.questions.question import Question, Reading
from attnscope.questions.surprise import surprises
from attnscope.records.charts import Answer, Cell, Chart, NumberTable, Series
from attnscope.records.tokens import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the text is divided."""

    n_words: int = number(
        2, (2, 3, 4, 5, 6, 8), title="words", tip="Words of an example; the last one is its answer"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Example:
    """A question, its answer, p of the answer, whether each of its tokens was the most probable, and the
    number of earlier examples with the same question.
    """

    asked: str
    answer: str
    p: float
    is_right: bool
    n_alike: int


class LearningInContext(Question):
    """The probability of each answer by the number of examples before it, and of examples with the same
    question.
    """

    name, title, order = "learning-in-context", "Learning in context", 35
    words = "how sure of each answer the model is after the examples before it in the text"
    source = "Brown et al. 2020; Olsson et al. 2022"
    needs = "a model that predicts the next token"
    kept_run = "few-shot"
    formula = "p_k = p(y_k | x_1 y_1 … x_(k−1) y_(k−1) x_k)"
    search = ("few-shot", "in-context learning", "one-shot", "zero-shot", "prompt", "examples")
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.next_tokens()
        if found.is_second:
            raise UserError(
                "This model writes a second text for a first one: its words are no examples with answers.",
                expected=self.needs,
                action="Open such a model, or the recipe few-shot.",
            )
        surprise, _, rank = surprises(reading, [token.id for token in found.tokens], found.positions)
        examples = _examples(found.tokens, surprise.tolist(), rank.tolist(), options.n_words)
        if len(examples) < 2:
            raise UserError(
                f"The text has {plural(len(examples), 'example')} of {options.n_words} words.",
                expected="at least 2, such as: b 3 d 0 b 3",
                action="Write more examples, or choose another number of words.",
            )
        return Answer(
            sentence=_sentence(examples),
            charts=(_by_place(examples), _by_alike(examples)),
            tables=(_table(examples),),
        )


def _examples(
    tokens: tuple[Token, ...], surprise: list[float], rank: list[int], n_words: int
) -> list[_Example]:
    words: list[list[int]] = []
    for k, token in enumerate(tokens):
        if token.is_special:
            continue
        if token.joins_previous and words:
            words[-1].append(k)
        else:
            words.append([k])
    spelt = ["".join(tokens[k].piece for k in word) for word in words]
    found, seen = [], Counter[str]()
    for first in range(0, len(words) - n_words + 1, n_words):
        asked, answer = " ".join(spelt[first : first + n_words - 1]), words[first + n_words - 1]
        found.append(
            _Example(
                asked=asked,
                answer=spelt[first + n_words - 1],
                p=float(np.exp(-sum(surprise[k] for k in answer))),
                is_right=not any(rank[k] for k in answer),
                n_alike=seen[asked],
            )
        )
        seen[asked] += 1
    return found


def _sentence(examples: list[_Example]) -> str:
    parts = []
    for what, some in (
        ("asked for the first time", [one for one in examples if not one.n_alike]),
        ("asked before", [one for one in examples if one.n_alike]),
    ):
        if some:
            p, n_right = np.mean([one.p for one in some]), sum(one.is_right for one in some)
            parts.append(f"{plural(len(some), 'answer')} {what}: p {fixed(float(p))}, {n_right} right")
    told = "; ".join(parts) + "."
    if not any(one.n_alike for one in examples):
        told += " No example asks what one before it asked: the text holds nothing to answer from."
    return told


def _by_place(examples: list[_Example]) -> Chart:
    return Chart(
        title="By examples before",
        x_label="examples before",
        y_label="p of the answer",
        y_range=(0.0, 1.0),
        series=(
            Series(
                name="answer",
                xs=np.arange(len(examples), dtype=np.float64),
                ys=np.array([one.p for one in examples]),
                has_points=True,
            ),
        ),
    )


def _by_alike(examples: list[_Example]) -> Chart:
    counts = sorted({one.n_alike for one in examples})
    groups = [[one for one in examples if one.n_alike == n] for n in counts]
    curves = (
        ("mean p", [float(np.mean([one.p for one in some])) for some in groups]),
        ("share right", [float(np.mean([one.is_right for one in some])) for some in groups]),
    )
    return Chart(
        title="By examples that asked the same",
        x_label="examples of the same",
        y_label="of the answers",
        y_range=(0.0, 1.0),
        series=tuple(
            Series(
                name=name,
                xs=np.array(counts, dtype=np.float64),
                ys=np.array(ys),
                colour=k,
                has_points=True,
                is_dashed=k == 1,
            )
            for k, (name, ys) in enumerate(curves)
        ),
    )


def _table(examples: list[_Example]) -> NumberTable:
    words = ("no", "yes")
    rows: list[tuple[Cell, ...]] = [
        (one.asked, one.answer, float(one.n_alike), one.p, words[one.is_right]) for one in examples
    ]
    columns = ("asked", "answer", "asked before", "p", "most probable")
    return NumberTable(title="Example by example", columns=columns, rows=tuple(rows))
