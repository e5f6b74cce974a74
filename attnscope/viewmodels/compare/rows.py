"""Before | after and A | B as rows: candidates, texts with changed words, measures with their difference."""

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter

from attnscope.counting import probability_text, with_sign
from attnscope.records.maps import NO_TOKEN
from attnscope.records.messages import Traced
from attnscope.records.models import ModelInfo
from attnscope.records.outputs import NOT_MEANT, Comparison, Output, OutputKind, Prediction
from attnscope.records.sites import HeadRef
from attnscope.records.tokens import Token, told_apart
from attnscope.viewmodels.compare.difference import Way, align_tokens
from attnscope.viewmodels.session.head_measures import MEASURES, MeasureKind, find_measures

KIND_WORDS: dict[OutputKind, str] = {
    "next-token": "next token",
    "masked-token": "masked token",
    "translation": "translation",
    "class": "label",
    "nothing": "none: nothing is predicted here",
}
"""What each kind of output tells."""


def kind_words(kind: OutputKind, model: ModelInfo | None) -> str:
    """What an output tells; of a second text what the model says that it is: a summary, a sorted row."""
    return model.writes if kind == "translation" and model is not None else KIND_WORDS[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow:
    """One token with its probability before and after; None when it is not among the best there.

    Then it has no more than `before_below` or `after_below`, the least of the best; None: that is not known.
    `name` is what the token is called where another one reads alike; see `records.tokens.told_apart`.
    """

    token: Token
    before: float | None
    after: float | None
    before_below: float | None = None
    after_below: float | None = None
    name: str = ""

    @property
    def sentence(self) -> str:
        """The row in words."""
        return (
            f"{self.name or self.token.piece}: {_percent(self.before)} before, {_percent(self.after)} after"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of generated text that is common to both sides, or not."""

    text: str
    is_changed: bool


_PIECE, _PROBABILITY, _LARGEST = attrgetter("token.piece"), attrgetter("probability"), itemgetter(0)
_LEAST_SHOWN = 0.0005
_N_ROWS_KEPT = 3
_LEAST_MOVED_NATS = 1e-4
_MOST_LABELS = 60
"""Characters of the labels that are written out."""


def candidate_rows(before: Prediction, after: Prediction, n_rows: int = 8) -> tuple[CandidateRow, ...]:
    """The candidates of both sides as `rows_of_both`, with the least of the best."""
    lows = [min(map(_PROBABILITY, side.candidates), default=None) for side in (before, after)]
    return rows_of_both(before, after, is_by_piece=False, n_rows=n_rows, lows=(lows[0], lows[1]))


def rows_of_both(
    first: Prediction | None,
    second: Prediction | None,
    *,
    is_by_piece: bool,
    n_rows: int = 8,
    lows: tuple[float | None, float | None] = (None, None),
) -> tuple[CandidateRow, ...]:
    """The candidates of both sides, the most probable on either side first; `lows` are the least of each.

    `is_by_piece` takes pieces that read alike as one: models with different vocabularies number them
    differently. After three rows, those that would round to nothing on both sides are left out.
    """
    found: dict[object, tuple[Token, float | None, float | None]] = {}
    for candidate in first.candidates if first else ():
        token = candidate.token
        key = (token.piece, token.joins_previous) if is_by_piece else token.id
        found[key] = (token, candidate.probability, None)
    for candidate in second.candidates if second else ():
        token = candidate.token
        key = (token.piece, token.joins_previous) if is_by_piece else token.id
        found[key] = (token, found[key][1] if key in found else None, candidate.probability)
    largest = [(max(b or 0.0, a or 0.0), token, b, a) for token, b, a in found.values()]
    largest.sort(key=_LARGEST, reverse=True)
    n_shown = max(len([one for one in largest if one[0] >= _LEAST_SHOWN]), _N_ROWS_KEPT)
    rows = [
        CandidateRow(token=token, before=b, after=a, before_below=lows[0], after_below=lows[1])
        for _, token, b, a in largest[: min(n_shown, n_rows)]
    ]
    if len({*map(_PIECE, rows)}) == len(rows):  # one call fewer at every key: two that read alike are rare
        return tuple(rows)
    names = told_apart([row.token for row in rows])
    return tuple(replace(row, name=name) for row, name in zip(rows, names, strict=True))


def prediction_labels(comparison: Comparison) -> tuple[str, ...]:
    """One label for each prediction that can be chosen."""
    return tuple(prediction.context for prediction in comparison.before.predictions)


def token_labels(output: Output) -> dict[int, str]:
    """The most probable label of each token, by its index; none where labels are of whole texts."""
    if output.kind != "class" or len(output.predictions) < 2:
        return {}
    return {one.position: one.candidates[0].token.piece for one in output.predictions if one.candidates}


def labels_text(output: Output, tokens: Sequence[Token]) -> str:
    """The labels of a text's tokens in a row; of a pointer the tokens that it points to, and as what."""
    labels = token_labels(output)
    if not output.predictions or NOT_MEANT not in {*labels.values()}:
        return f"says “{_cut(' '.join(labels.values()))}”" if labels else ""
    meant = {place: label for place, label in labels.items() if label != NOT_MEANT}
    if not meant:
        return "points to no token yet"
    pieces = " ".join(tokens[place].piece for place in meant if place < len(tokens))
    return f"points to “{_cut(pieces)}” ({next(iter(meant.values()))})"


def kl_text(comparison: Comparison, index: int) -> str:
    """KL(before ‖ after) of one prediction with its unit, three significant digits."""
    if not 0 <= index < len(comparison.kl_nats):
        return ""
    value = max(comparison.kl_nats[index], 0.0)
    return "KL 0 nats" if value < 5e-7 else f"KL {value:.3g} nats"


def follows_text(comparison: Comparison) -> str:
    """Whether the second text follows the first, before and after; empty where nobody asked."""
    before, after = comparison.before.follows, comparison.after.follows
    if before is None or after is None:
        return ""
    shown, said = tuple(map(probability_text, (before, after))), tuple(map(next_verdict, (before, after)))
    verdict = said[0] if said[0] == said[1] else f"{said[0]} → {said[1]}"
    changed = f" → {shown[1]}" if shown[0] != shown[1] else ""
    return f"second follows first: {shown[0]}{changed} ({verdict})"


def next_verdict(p_follows: float) -> str:
    """The answer by the names that Devlin et al. 2018 give them."""
    return "IsNext" if p_follows > 0.5 else "NotNext"


COPIED_TIP = (
    "p_gen: the probability that this token is written from the vocabulary; 1 − p_gen: that it is copied from"
    " where the last cross-attention looks, a word that the vocabulary lacks too. (See et al. 2017)\n"
    "With changes to heads: before → after."
)


def copied_text(comparison: Comparison, index: int) -> str:
    """Whether a prediction is written or copied, before and after; empty where a model copies nothing."""
    sides = (comparison.before.p_write, comparison.after.p_write)
    if not all(index < len(side) for side in sides):
        return ""
    shown = [probability_text(side[index]) for side in sides]
    changed = f" → {shown[1]}" if shown[0] != shown[1] else ""
    return f"p_gen {shown[0]}{changed}: {'rather copied' if sides[1][index] < 0.5 else 'rather written'}"


CERTAINTY_TIP = (
    "Certainty: the geometric mean of the probabilities that the model gave to the tokens it generated: one"
    " over the perplexity of its own text. A model that is unsure is more often wrong."
)
UNSURE = 0.6
"""Below this certainty a translation of english-french is more often wrong than right: see Help, Output."""


def certainty_text(comparison: Comparison) -> str:
    """How sure the model is of what it generated as it is; empty where nobody knows."""
    value = comparison.before.certainty
    if value is None:
        return ""
    return f"certainty {probability_text(value)}" + (": unsure" if value < UNSURE else "")


def unsure_text(comparison: Comparison) -> str:
    """A warning beside a text that the model is not sure of; else empty."""
    value = comparison.before.certainty
    if value is None or value >= UNSURE:
        return ""
    return f"Unsure: certainty {probability_text(value)}"


def most_changed_position(comparison: Comparison) -> int:
    """The prediction that the gates moved most, by KL; when none moved that of the first token that is meant
    where a model points, else the first.
    """
    values = [value if value == value else 0.0 for value in comparison.kl_nats]
    largest = max(values, default=0.0)
    if largest >= _LEAST_MOVED_NATS:
        return values.index(largest)
    if comparison.before.kind != "class":
        return 0
    labels = [*token_labels(comparison.before).values()]
    return next((k for k, label in enumerate(labels) if NOT_MEANT in labels and label != NOT_MEANT), 0)


def text_difference(before: str, after: str) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Both texts cut into stretches of words that are common to both or changed."""
    words_before, words_after = _words(before), _words(after)
    matcher = difflib.SequenceMatcher(None, words_before, words_after, autojunk=False)
    left: list[Segment] = []
    right: list[Segment] = []
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        is_changed = kind != "equal"
        if i < i_end:
            left.append(Segment(text="".join(words_before[i:i_end]), is_changed=is_changed))
        if j < j_end:
            right.append(Segment(text="".join(words_after[j:j_end]), is_changed=is_changed))
    return tuple(left), tuple(right)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LABELS else f"{text[: _MOST_LABELS - 1]}…"


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def _percent(probability: float | None) -> str:
    return "not among the best" if probability is None else probability_text(probability)


_LEAST_NATS = 5e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureDifference:
    """One measure of one head on both sides; NaN where it does not apply."""

    kind: MeasureKind
    first: float
    second: float

    @property
    def delta(self) -> float:
        """B − A."""
        return self.second - self.first

    @property
    def texts(self) -> tuple[str, str, str]:
        """A, B and Δ as people read them."""
        digits = self.kind.digits + 1
        values = tuple(f"{v:.{digits}f}" if math.isfinite(v) else "–" for v in (self.first, self.second))
        return (values[0], values[1], with_sign(self.delta, digits))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedAnswer:
    """A prediction of A, of B, or of both at places that stand for each other.

    `pair` are their numbers in both outputs; None where one side has no such position.
    """

    label: str
    first: Prediction | None
    second: Prediction | None
    pair: tuple[int, int] | None


def measure_differences(
    first: Traced | None, second: Traced | None, head: HeadRef | None, second_head: HeadRef | None
) -> tuple[MeasureDifference, ...]:
    """Every measure of a head of A against a head of B; empty when neither is there."""
    own = find_measures(first.measures, head) if first and head else None
    other = find_measures(second.measures, second_head) if second and second_head else None
    if own is None and other is None:
        return ()
    return tuple(
        MeasureDifference(
            kind=kind,
            first=float(getattr(own, kind.field)) if own else math.nan,
            second=float(getattr(other, kind.field)) if other else math.nan,
        )
        for kind in MEASURES
    )


def pair_answers(first: Traced, second: Traced, way: Way) -> tuple[PairedAnswer, ...]:
    """What both models say, place by place.

    One answer of each side belongs together; several are paired as the tokens they stand at.
    """
    own, other = first.comparison.after.predictions, second.comparison.after.predictions
    if len(own) == len(other) == 1:
        return (_paired(own, other, 0, 0),)
    tokens = [(t.target if t.target is not None else t.source).tokens for t in (first, second)]
    aligned = align_tokens(tokens[0], tokens[1], way)
    places = [{p.position: k for k, p in enumerate(side)} for side in (own, other)]
    found = []
    for i, j in zip(aligned.first, aligned.second, strict=True):
        at = places[0].get(i) if i != NO_TOKEN else None
        other_at = places[1].get(j) if j != NO_TOKEN else None
        if at is not None or other_at is not None:
            found.append(_paired(own, other, at, other_at))
    return tuple(found)


def kl_words(kl_nats: float | None) -> str:
    """KL(A ‖ B) with its unit; a dash where it is not defined."""
    if kl_nats is None or not math.isfinite(kl_nats):
        return "KL –"
    return "KL 0 nats" if kl_nats < _LEAST_NATS else f"KL {kl_nats:.3g} nats"


def most_apart(kl_nats: tuple[float, ...]) -> int:
    """The pair of answers that lie furthest apart; the first when none do."""
    values = [value if math.isfinite(value) else 0.0 for value in kl_nats]
    largest = max(values, default=0.0)
    return values.index(largest) if largest > _LEAST_NATS else 0


def _paired(
    own: tuple[Prediction, ...], other: tuple[Prediction, ...], at: int | None, other_at: int | None
) -> PairedAnswer:
    first = own[at] if at is not None else None
    second = other[other_at] if other_at is not None else None
    labels = [side.context if side else "" for side in (first, second)]
    if first is None or second is None:
        label = f"{labels[0] or labels[1]}, only in {'A' if second is None else 'B'}"
    else:
        label = labels[0] if labels[0] == labels[1] else f"{labels[0]} | {labels[1]}"
    pair = (at, other_at) if at is not None and other_at is not None else None
    return PairedAnswer(label=label, first=first, second=second, pair=pair)
