"""A head's projections of each token before tokens interact: its query, its key and its value."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attnscope.counting import format_number
from attnscope.fields import number
from attnscope.questions.question import Numbers, Question, Reading
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series
from attnscope.records.tokens import Token

_NAMES = {"q": "Queries x·W_Q", "k": "Keys x·W_K", "v": "Values x·W_V"}
_SHORT = {"q": "query", "k": "key", "v": "value"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The number of tokens in the maps."""

    n_shown: int = number(
        16,
        (4, 8, 16, 32, 64, 128),
        title="tokens",
        tip="The maps and the chart show at most so many tokens, the first ones; the table has all norms",
    )


class HeadProjections(Question):
    """The vectors from which scores and weighted sums are computed."""

    name, title, order = "projections", "Projections", 20
    words = "the selected head's query, key and value of each token, before tokens meet"
    source = "Vaswani et al. 2017, section 3.2"
    needs = "heads whose matrices can be found"
    formula = "q = x·W_Q + b_Q,   k = x·W_K + b_K,   v = x·W_V + b_V"
    search = ("query", "key", "value", "W_Q", "W_K", "W_V", "linear map", "projection matrices")
    is_of_head = True
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.projections()
        rows = {name: getattr(found, name) for name in _NAMES}
        tokens = {"q": found.query_tokens, "k": found.key_tokens, "v": found.key_tokens}
        norms = {name: np.linalg.norm(one, axis=1) for name, one in rows.items()}
        n = options.n_shown
        return Answer(
            sentence=_sentence(f"{found.head.stack} {found.head.label}", tokens, rows, norms),
            cells=tuple(_map(name, one[:n], tokens[name][:n], len(one)) for name, one in rows.items()),
            charts=(_chart({name: one[:n] for name, one in norms.items()}),),
            tables=tuple(_tables(norms, tokens)),
            note="Rotations by position, norms of queries and keys, and scales come after these products.",
        )


def _sentence(
    head: str, tokens: dict[str, tuple[Token, ...]], rows: dict[str, Numbers], norms: dict[str, Numbers]
) -> str:
    means = ", ".join(f"{_SHORT[name]} {format_number(float(one.mean()))}" for name, one in norms.items())
    longest = int(np.argmax(norms["v"]))
    size = format_number(float(norms["v"][longest]))
    return (
        f"Head {head} maps each token to three rows of {rows['q'].shape[1]} numbers, of mean norm {means}; "
        f"the longest value is that of “{tokens['v'][longest].piece}” ({size})."
    )


def _map(name: str, rows: Numbers, tokens: tuple[Token, ...], n_tokens: int) -> CellMap:
    limit = float(np.abs(rows).max(initial=0.0)) or 1.0
    is_part = len(rows) < n_tokens
    return CellMap(
        title=_NAMES[name],
        values=rows,
        kind="signed",
        limit=limit,
        note=f"first {len(rows)} of {n_tokens} tokens" if is_part else "",
        rows=tuple(token.piece for token in tokens),
        row_title="token",
        column_title="dimension of the head",
    )


def _chart(norms: dict[str, Numbers]) -> Chart:
    return Chart(
        title="Norms",
        x_label="position",
        y_label="‖q‖, ‖k‖, ‖v‖",
        series=tuple(
            Series(
                name=_SHORT[name], xs=np.arange(len(one), dtype=np.float64), ys=one, colour=k, has_points=True
            )
            for k, (name, one) in enumerate(norms.items())
        ),
    )


def _tables(norms: dict[str, Numbers], tokens: dict[str, tuple[Token, ...]]) -> Iterator[NumberTable]:
    """The norms of each token: in one table if queries and keys are of one text, else in two."""
    if tokens["q"] == tokens["k"]:
        yield _table("Norms by token", norms, ("q", "k", "v"), tokens["q"])
    else:
        yield _table("Norms by query token", norms, ("q",), tokens["q"])
        yield _table("Norms by key token", norms, ("k", "v"), tokens["k"])


def _table(
    title: str, norms: dict[str, Numbers], names: tuple[str, ...], tokens: tuple[Token, ...]
) -> NumberTable:
    rows: list[tuple[Cell, ...]] = [
        (token.piece, *(float(norms[name][k]) for name in names)) for k, token in enumerate(tokens)
    ]
    columns = ("token", *(f"‖{name}‖" for name in names))
    return NumberTable(title=title, columns=columns, rows=tuple(rows))
