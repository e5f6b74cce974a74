"""Made-up pruning curves and importances over the sample model's heads, and a state that has them."""

from session_samples import Desk, gates_off, info, states_of
from told import names_told

from attnscope.records import (
    CurveMeasured,
    CurvePoint,
    CurvesMeasured,
    HeadRef,
    HeadScore,
    HeadsRanked,
    Importance,
    MeasureCurves,
    ModelLoaded,
    PruningCurve,
    Ranking,
)

HEADS: tuple[HeadRef, ...] = tuple(head for site in info().sites for head in site.heads)


def curve(ranking: Ranking = "gradient", *, seed: int = 0, slope: float = 1.0) -> PruningCurve:
    """Heads go two at a time, from the last (odd seeds: the first); the loss rises by `slope`."""
    order = HEADS if seed % 2 else HEADS[::-1]
    points = tuple(
        CurvePoint(
            n_removed=n,
            gates=gates_off(*order[:n]),
            value=0.5 + slope * n,
            low=0.25 + slope * n,
            high=1.0 + slope * n,
        )
        for n in range(0, len(HEADS) + 1, 2)
    )
    return PruningCurve(
        ranking=ranking,
        metric="loss",
        points=points,
        n_heads=len(HEADS),
        n_texts=7,
        is_rescored=True,
        seed=seed,
    )


def importance(ranking: Ranking = "gradient") -> Importance:
    scores = tuple(
        HeadScore(head=head, value=0.001 * k, low=0.0009 * k, high=0.0011 * k) for k, head in enumerate(HEADS)
    )
    return Importance(ranking=ranking, scores=scores, n_texts=7)


class CurvesDesk(Desk):
    """A session, a table of heads and pruning curves whose worker is played by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[object] = []
        self.states = states_of(self.session, worker=self.asked.append)
        self.heads, self.curves, self.tints = self.states.heads, self.states.curves, self.states.tints
        self.curves_told = names_told(self.curves.changed)

    def loaded(self) -> "CurvesDesk":
        self.open()
        for state in (self.heads, self.curves):
            state.handle(ModelLoaded(number=0, info=self.model))
        return self

    def measure(self, *curves: PruningCurve, is_whole: bool = True) -> None:
        self.curves.run()
        asked = next(one for one in reversed(self.asked) if isinstance(one, MeasureCurves))
        self.curves.handle(HeadsRanked(number=asked.number, importance=importance()))
        for one in curves:
            self.curves.handle(CurveMeasured(number=asked.number, curve=one))
        if is_whole:
            self.curves.handle(CurvesMeasured(number=asked.number, texts="seven texts"))
