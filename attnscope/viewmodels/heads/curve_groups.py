"""Pruning curves as they are drawn: one line for each ranking, several random orders as one with their mean.

Pure functions, for the window and for figures alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from attnscope.records.importance import CurvePoint, PruningCurve, Ranking
from attnscope.records.sites import HeadRef

RANKING_NAMES: dict[Ranking, str] = {
    "gradient": "gradient",
    "leave-one-out": "leave one out",
    "learned": "learned gates",
    "random": "random",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveGroup:
    """The curves of one ranking: one, or several random orders of the same numbers of heads."""

    ranking: Ranking
    curves: tuple[PruningCurve, ...]

    @property
    def name(self) -> str:
        """What stands at the line."""
        name = RANKING_NAMES[self.ranking]
        return name if len(self.curves) == 1 else f"{name}, mean of {len(self.curves)}"

    @property
    def removed(self) -> tuple[int, ...]:
        """The numbers of heads removed."""
        return tuple(point.n_removed for point in self.curves[0].points)

    @property
    def means(self) -> tuple[float, ...]:
        """The metric at each number of heads; the mean over the orders where there are several."""
        columns = zip(*(curve.points for curve in self.curves), strict=True)
        return tuple(sum(point.value for point in column) / len(column) for column in columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRef:
    """One point of one curve."""

    curve: PruningCurve
    index: int

    @property
    def point(self) -> CurvePoint:
        """The point itself."""
        return self.curve.points[self.index]

    @property
    def taken_last(self) -> tuple[HeadRef, ...]:
        """The heads that are off here and were still on at the point before."""
        if self.index == 0:
            return ()
        before = set(self.curve.points[self.index - 1].gates.off())
        return tuple(head for head in self.point.gates.off() if head not in before)


def grouped(curves: Sequence[PruningCurve]) -> tuple[CurveGroup, ...]:
    """The curves by ranking, in the order in which rankings come first."""
    rankings = dict.fromkeys(curve.ranking for curve in curves)
    return tuple(
        CurveGroup(ranking=ranking, curves=tuple(curve for curve in curves if curve.ranking == ranking))
        for ranking in rankings
    )
