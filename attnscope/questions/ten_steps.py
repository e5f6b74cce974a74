"""How a recurrent decoder with attention generates one word, in ten steps with its own numbers.

| symbol | meaning                                                                  | shape               |
|--------|--------------------------------------------------------------------------|---------------------|
| h_j    | state of the encoder at source token j                                   | [d]                 |
| s      | state of the decoder that asks: before the word, or at it                | [d]                 |
| e_j    | score of s and h_j, of one head                                          | one number          |
| a_j    | softmax of e over j                                                      | one number          |
| c      | context, Σ_j a_j h_j of every head, projected                            | [d]                 |
| t      | tanh(W_c c + W_s s), with W_x x where the context is fed to the cell     | [d]                 |

Bahdanau et al. 2014, section 3.1; Luong et al. 2015, section 3, equation 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnscope.counting import format_number, share_words
from attnscope.fields import number
from attnscope.questions.question import Decoded, Numbers, Question, Reading
from attnscope.records.charts import Answer, CellMap, Chart, NumberTable, Series

_N_SHOWN = 3
_N_DIMENSIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The word to show."""

    word: int = number(0, range(200), title="word", tip="Which word of the output is written, from 0")


class TenSteps(Question):
    """A step of a recurrent decoder with attention."""

    name, title, order = "ten-steps", "Ten steps of a decoder", 95
    words = "how a recurrent decoder with attention writes one word: states, scores, weights, context, word"
    source = "Bahdanau et al. 2014; Luong et al. 2015"
    needs = "a recurrent model with attention (recipe reverse-bahdanau or english-french-luong)"
    kept_run = "reverse-bahdanau"
    formula = "a = softmax(e(s, h_j)),   c = Σ a_j h_j,   t = tanh(W [c; s]),   p = softmax(W_o t)"
    search = ("seq2seq", "rnn", "gru", "lstm", "bahdanau", "luong", "context vector", "encoder states")
    is_of_head = True
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.decoded()
        i = min(options.word, len(found.target_tokens) - 1)
        sources = tuple(token.piece for token in found.source_tokens)
        after = found.target_tokens[i + 1].piece if i + 1 < len(found.target_tokens) else ""
        strongest = int(np.nanargmax(found.weights[i]))
        best, p = found.best[i][0]
        return Answer(
            sentence=(
                f"After {found.target_tokens[i].piece!r} {found.head.stack} {found.head.label} gives "
                f"{share_words(float(found.weights[i, strongest]))} of its weight to {sources[strongest]!r}, "
                f"and the model writes {best!r} with {share_words(p)}."
            ),
            tables=(_table(found, i, sources, after),),
            charts=(
                _stems("Scores e", "score", found.scores[i], sources),
                _stems("Weights a", "weight", found.weights[i], sources),
                _stems(
                    "Next word", "p", np.array([p for _, p in found.best[i]]), [w for w, _ in found.best[i]]
                ),
            ),
            cells=(_states(found, sources), _vectors(found, i)),
            note="The next step begins with the word that is in the output, whatever the model would write.",
        )


def _table(found: Decoded, i: int, sources: Sequence[str], after: str) -> NumberTable:
    d, n = found.h.shape[1], len(sources)
    fed = "; x" if found.is_fed else ""
    best, p = found.best[i][0]
    strongest = int(np.nanargmax(found.weights[i]))
    rows = (
        ("1 encoder states", "h_1 … h_T", f"{n} states of {d} numbers, one for each source token"),
        ("2 decoder state", "s", _first(found.s[i])),
        ("3 scores", "e_j = score(s, h_j)", _largest(found.scores[i], sources)),
        ("4 weights", "a = softmax(e)", _largest(found.weights[i], sources)),
        (
            "5 weighted states",
            "a_j h_j",
            f"most of {sources[strongest]!r}: {format_number(float(found.weights[i, strongest]))} · h",
        ),
        ("6 context vector", "c = Σ a_j h_j, projected", _first(found.c[i])),
        ("7 concatenation", f"[c; s{fed}]", f"{d} + {found.joined.shape[1]} numbers"),
        ("8 attention vector", f"t = tanh(W [c; s{fed}])", _first(found.t[i])),
        ("9 word", "p = softmax(W_o t)", f"{best!r} {format_number(p)}"),
        ("10 next step", "its word is read", repr(after) if after else "the end of the output"),
    )
    return NumberTable(title="Ten steps", columns=("step", "formula", "now"), rows=rows)


def _first(values: Numbers) -> str:
    shown = ", ".join(format_number(float(x), 2) for x in values[:_N_SHOWN])
    return f"({shown}, …), length {format_number(float(np.linalg.norm(values)))}"


def _largest(values: Numbers, names: Sequence[str]) -> str:
    order = np.argsort(np.where(np.isfinite(values), -values, np.inf))[:_N_SHOWN]
    return ", ".join(f"{names[j]} {format_number(float(values[j]), 2)}" for j in order)


def _stems(title: str, unit: str, values: Numbers, names: Sequence[str]) -> Chart:
    xs = np.arange(1.0, len(values) + 1)
    shown = np.where(np.isfinite(values), values, np.nan)
    series = Series(name="", xs=xs, ys=shown, style="stems")
    return Chart(title=title, x_label="", y_label=unit, series=(series,), x_names=tuple(names))


def _states(found: Decoded, sources: tuple[str, ...]) -> CellMap:
    return _map("Encoder states", found.h[:, :_N_DIMENSIONS], sources, found.h.shape[1])


def _vectors(found: Decoded, i: int) -> CellMap:
    rows = np.stack([vector[i] for vector in (found.s, found.c, found.t)])
    return _map("State, context, attention vector", rows[:, :_N_DIMENSIONS], ("s", "c", "t"), rows.shape[1])


def _map(title: str, values: Numbers, rows: tuple[str, ...], width: int) -> CellMap:
    return CellMap(
        title=title,
        values=values,
        kind="signed",
        limit=float(np.abs(values).max(initial=0.0)) or 1.0,
        note=f"the first {values.shape[1]} of {width} dimensions" if values.shape[1] < width else "",
        rows=rows,
        row_title="vector",
        column_title="dimension",
    )
