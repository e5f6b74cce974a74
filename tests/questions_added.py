"""A question in a file of another folder, as if it had been added to those of the program."""

from typing import Any

import pytest
from session_samples import Desk, state_of

from attnscope.questions import QUESTIONS, Question


def asking(monkeypatch: pytest.MonkeyPatch, asked: list[Any], desk: Desk, **questions: Question) -> Any:
    """The state behind the panel *Ask* where there are these questions alone."""
    for name in [*QUESTIONS]:
        monkeypatch.delitem(QUESTIONS, name)
    for name, question in questions.items():
        monkeypatch.setitem(QUESTIONS, name, question)
    return state_of("asking", asked.append, session=desk.session)


LETTERS = '''
"""How many letters the tokens of a text have."""

from dataclasses import dataclass

import numpy as np

from attnscope.fields import number, one_of, switch
from attnscope.questions.question import Question
from attnscope.records.charts import Answer, NumberTable
from attnscope.records.charts import CellMap, Chart, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    least: int = number(1, (1, 2, 3, 4), title="least", tip="The fewest letters that count")
    order: str = one_of("text", {"text": "of the text", "size": "by size"}, title="order", tip="The order")
    is_log: bool = switch(False, title="log", tip="A logarithmic axis")


class Letters(Question):
    name, title, order = "letters", "Letters", 1_000
    words = "how many letters each token has"
    source = "Nobody 1999"
    needs = "a model that reads text"
    search = ("length", "abecedarium")
    options = Options()

    def answer(self, reading, options):
        pieces = [token.piece for token in reading.tokens if len(token.piece) >= options.least]
        pieces = sorted(pieces, key=len) if options.order == "size" else pieces
        sizes = np.array([len(piece) for piece in pieces], dtype=np.float64)
        rows = tuple(zip(pieces, sizes.tolist(), strict=True))
        series = Series(name="letters", xs=np.arange(len(sizes)), ys=sizes)
        axes = {"x_label": "token", "y_label": "n", "is_log_y": options.is_log}
        return Answer(
            sentence=f"{len(pieces)} tokens have {int(sizes.sum())} letters.",
            charts=(Chart(title="Letters", series=(series,), **axes),),
            cells=(CellMap(title="Sizes", values=sizes[None], limit=12.0, columns=tuple(pieces)),),
            tables=(NumberTable(title="Tokens", columns=("token", "letters"), rows=rows),),
        )
'''
