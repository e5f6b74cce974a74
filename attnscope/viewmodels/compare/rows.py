"""The numbers of two sides as rows: measures with their difference, answers in pairs, candidates of both.

Must not import Qt.
"""

import math
from dataclasses import dataclass

from attnscope.counting import with_sign
from attnscope.records.maps import NO_TOKEN
from attnscope.records.messages import Traced
from attnscope.records.outputs import Candidate, Prediction
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.comparison_rows import CandidateRow, named_rows
from attnscope.viewmodels.maps.alignment import Way, align_tokens
from attnscope.viewmodels.session.head_measures import MEASURES, MeasureKind, find_measures

_LEAST_NATS = 5e-7
_LEAST_SHOWN = 0.0005
_N_ROWS_KEPT = 3


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


def rows_of_both(
    first: Prediction | None, second: Prediction | None, *, is_by_piece: bool, n_rows: int = 8
) -> tuple[CandidateRow, ...]:
    """The candidates of both sides, the most probable on either side first.

    `is_by_piece` takes pieces that read alike as one: models with different vocabularies number them
    differently. After three rows, those that would round to nothing on both sides are left out.
    """
    rows: dict[object, CandidateRow] = {}
    for candidate in first.candidates if first else ():
        rows[_name(candidate, is_by_piece)] = CandidateRow(
            token=candidate.token, before=candidate.probability, after=None
        )
    for candidate in second.candidates if second else ():
        name = _name(candidate, is_by_piece)
        before = rows[name].before if name in rows else None
        rows[name] = CandidateRow(token=candidate.token, before=before, after=candidate.probability)
    ordered = sorted(rows.values(), key=_largest, reverse=True)
    n_shown = max(sum(_largest(row) >= _LEAST_SHOWN for row in ordered), _N_ROWS_KEPT)
    return named_rows(ordered[: min(n_shown, n_rows)])


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


def _name(candidate: Candidate, is_by_piece: bool) -> object:
    token = candidate.token
    return (token.piece, token.joins_previous) if is_by_piece else token.id


def _largest(row: CandidateRow) -> float:
    return max(row.before or 0.0, row.after or 0.0)
