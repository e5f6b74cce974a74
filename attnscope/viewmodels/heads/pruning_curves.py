"""The state of the page of pruning curves: what to measure, how far it is, the curves, the point chosen.

Must not import Qt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from psygnal import Signal, SignalGroup

from attnscope.counting import plural, time_left
from attnscope.records.importance import (
    METRICS,
    RANKINGS,
    CurveMeasured,
    CurvePoint,
    CurvesMeasured,
    CurvesNews,
    HeadsRanked,
    Importance,
    MeasureCurves,
    MetricName,
    PruningCurve,
    Ranking,
    TextSource,
)
from attnscope.records.messages import ModelLoaded
from attnscope.records.models import ModelInfo
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.heads.first_look import FirstLook
from attnscope.viewmodels.query import Job, Requests
from attnscope.viewmodels.session.state import Session

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


MAX_TEXTS = 1000
_FIRST_TEXTS, _PASSES_A_TEXT = 8, 11
"""A first look reads so few texts, each once for every tenth of the heads of a ranking, and scores once."""
METRIC_NAMES: dict[MetricName, str] = {
    "loss": "loss",
    "accuracy": "accuracy",
    "exact-match": "exact match",
    "alignment-error": "alignment error",
    "bleu": "BLEU",
}


class CurvesChanges(SignalGroup):
    """What of it can change."""

    choice = Signal()
    progress = Signal()
    curves = Signal()
    importance = Signal()
    point = Signal()
    """The one under the cursor, or the one chosen."""
    loaded = Signal()
    """Whether the gates are those of the point chosen."""


class CurvesState:
    """Pruning curves of the open model; at most one pass is under way."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self._session = session
        self.job = Job(CurvesNews, CurvesMeasured, requests)
        self.changed = CurvesChanges()
        self.source: TextSource = "own"
        self.path = ""
        self.metric: MetricName = "loss"
        self.rankings: tuple[Ranking, ...] = ("gradient", "random")
        self.max_texts, self.n_random = 100, 3
        self.is_rescored = True
        self.is_first = False
        self.curves: tuple[PruningCurve, ...] = ()
        self.growing: tuple[PruningCurve, ...] = ()
        self.importances: tuple[Importance, ...] = ()
        self.hovered: PointRef | None = None
        self.chosen: PointRef | None = None
        self.first_look = FirstLook(
            session,
            lambda: _PASSES_A_TEXT * _FIRST_TEXTS * len(self.rankings),
            lambda: self.job.phase == "empty",
            lambda: self._run(is_first=True),
        )
        session.changed.gates.connect(self._on_gates, max_args=0)

    # What can be read

    @property
    def model(self) -> ModelInfo | None:
        """The open model."""
        return self._session.model

    @property
    def texts(self) -> str:
        """What the texts of a pass that is done were; empty before."""
        answer = self.job.answer
        return answer.texts if answer is not None and self.job.phase == "done" else ""

    @property
    def can_run(self) -> bool:
        """Whether there is a model and a ranking, and no pass under way."""
        return self._session.model is not None and bool(self.rankings) and not self.job.is_running

    @property
    def metrics(self) -> tuple[MetricName, ...]:
        """The metrics that can apply to the open model."""
        has_cross = "cross" in self._session.stacks
        return tuple(name for name in METRICS if name not in ("alignment-error", "bleu") or has_cross)

    @property
    def texts_name(self) -> str:
        """The texts as people call them."""
        names: dict[TextSource, str] = {"own": "the model's own texts", "samples": "the sample sentences"}
        return names.get(self.source) or PurePath(self.path).name

    @property
    def groups(self) -> tuple[CurveGroup, ...]:
        """The curves as they are drawn: the whole ones, and what is there of one of another ranking."""
        whole = {curve.ranking for curve in self.curves}
        return grouped((*self.curves, *(curve for curve in self.growing if curve.ranking not in whole)))

    @property
    def point(self) -> PointRef | None:
        """The point that is told about: the one under the cursor, or the one chosen."""
        return self.hovered or self.chosen

    @property
    def is_loaded(self) -> bool:
        """Whether the session has the pruning of the chosen point."""
        return self.chosen is not None and self.chosen.point.gates == self._session.gates

    @property
    def progress(self) -> str:
        """What is being done and how long the rest will take."""
        news = self.job.news
        if not self.job.is_running:
            return ""
        if news is None:
            return "Waiting for the model…"
        left = "" if news.left_s is None else f" · {time_left(news.left_s)}"
        return f"{news.what}{left}"

    # Intents

    def choose_texts(self, source: TextSource, path: str = "") -> None:
        """Measure over other texts."""
        if (source, path) != (self.source, self.path):
            self.source, self.path = source, path
            self.changed.choice.emit()

    def choose_metric(self, name: str) -> None:
        """Measure another metric."""
        for known in self.metrics:
            if known == name and known != self.metric:
                self.metric = known
                self.changed.choice.emit()

    def choose_rankings(self, names: Iterable[str]) -> None:
        """Remove heads in the order of these rankings."""
        wanted = set(names)
        self.rankings = tuple(ranking for ranking in RANKINGS if ranking in wanted)
        self.changed.choice.emit()

    def choose_amounts(self, max_texts: int, n_random: int) -> None:
        """Read at most so many texts; draw so many random orders."""
        self.max_texts = min(max(max_texts, 1), MAX_TEXTS)
        self.n_random = min(max(n_random, 1), 20)
        self.changed.choice.emit()

    def rescore(self, is_rescored: bool) -> None:
        """Score the heads that are left again after each removal, or score once."""
        self.is_rescored = is_rescored
        self.changed.choice.emit()

    def run(self) -> None:
        """Begin a pass; the curves before it go."""
        self._run()

    def _run(self, *, is_first: bool = False) -> None:
        """`is_first`: a first look, with few texts, one random order, and heads that are scored once."""
        if not self.can_run:
            return
        self.is_first = is_first
        self.curves, self.growing, self.importances = (), (), ()
        self.hovered = self.chosen = None
        self.job.start(
            MeasureCurves(
                rankings=self.rankings,
                metric=self.metric,
                source=self.source,
                path=self.path,
                max_texts=min(_FIRST_TEXTS, self.max_texts) if is_first else self.max_texts,
                n_random=1 if is_first else self.n_random,
                is_rescored=self.is_rescored and not is_first,
            )
        )
        self.changed.curves.emit()
        self.changed.importance.emit()
        self.changed.point.emit()
        self.changed.progress.emit()

    def stop(self) -> None:
        """Give the pass up; the curves that are whole stay."""
        if self.job.stop():
            self._drop_growing()
            self.changed.progress.emit()

    def hover(self, found: PointRef | None) -> None:
        """The cursor is at a point, or at none."""
        if found != self.hovered:
            self.hovered = found
            self.changed.point.emit()

    def load(self, found: PointRef) -> None:
        """Switch off in the session the heads that are off at a point: one step for undo."""
        self.chosen = found
        self._session.head_changes.set_gates(pruning_label(found), found.point.gates)
        self.changed.point.emit()
        self.changed.loaded.emit()

    def load_again(self) -> None:
        """The same for the point chosen last."""
        if self.chosen is not None:
            self.load(self.chosen)

    def handle(self, reply: Reply) -> None:
        """Take a reply; those of other parts of the window are passed over."""
        match reply:
            case ModelLoaded():
                self._forget()
            case HeadsRanked() if self.job.owns(reply):
                others = (one for one in self.importances if one.ranking != reply.importance.ranking)
                self.importances = (*others, reply.importance)
                self.changed.importance.emit()
            case CurveMeasured() if self.job.owns(reply):
                if reply.is_whole:
                    self.curves, self.growing = (*self.curves, reply.curve), ()
                else:
                    self.growing = (reply.curve,)
                self.changed.curves.emit()
            case _ if self.job.take(reply):
                if self.job.phase == "failed":
                    self._drop_growing()
                self.changed.progress.emit()
            case _:
                pass

    # Inside

    def _drop_growing(self) -> None:
        """A curve that stays a part of one is not shown as one."""
        if self.growing:
            self.growing, self.hovered = (), None
            self.changed.curves.emit()
            self.changed.point.emit()

    def _forget(self) -> None:
        """Another model is open: its heads have not been removed."""
        self.stop()
        self.job.forget()
        self.curves, self.importances, self.hovered, self.chosen = (), (), None, None
        if self.metric not in self.metrics:
            self.metric = "loss"
        self.changed.choice.emit()
        self.changed.curves.emit()
        self.changed.importance.emit()
        self.changed.point.emit()
        self.changed.progress.emit()

    def _on_gates(self) -> None:
        self.changed.loaded.emit()


def pruning_label(found: PointRef) -> str:
    """What loading a point is called in the history."""
    n = found.point.n_removed
    if n == 0:
        return "pruning: every head on"
    return f"pruning: {plural(n, 'head')} off by {RANKING_NAMES[found.curve.ranking]}"
