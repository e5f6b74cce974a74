"""Removing heads: the page of pruning curves, and the dialog that removes heads that are off."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from psygnal import Signal, SignalGroup

from attnscope.counting import bytes_text, format_number, plural, time_left, with_sign
from attnscope.records.importance import (
    DEFAULT_RANKINGS,
    METRICS,
    RANKINGS,
    CurveMeasured,
    CurvePoint,
    CurvesMeasured,
    CurvesNews,
    ForgetPruned,
    HeadsRanked,
    Importance,
    MeasureCurves,
    MetricName,
    ModelSize,
    PrunedSaved,
    PruneShape,
    PruningCurve,
    PruningReport,
    PruningTried,
    Ranking,
    SavePruned,
    SpeedChange,
    TextSource,
    TryPruning,
)
from attnscope.records.messages import Failed, ModelLoaded, Progress
from attnscope.records.models import ModelInfo
from attnscope.records.requests import Reply
from attnscope.records.sites import NO_GATES, STACKS, Gates, HeadRef, SiteKey
from attnscope.viewmodels.heads.state import FirstLook
from attnscope.viewmodels.query import Job, Requests
from attnscope.viewmodels.session.state import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveGroup:
    """The curves of one ranking: one, or several random orders of the same numbers of heads."""

    ranking: Ranking
    curves: tuple[PruningCurve, ...]

    @property
    def name(self) -> str:
        """Label of the line."""
        name = RANKINGS[self.ranking].title
        return name if len(self.curves) == 1 else f"{name}, mean of {len(self.curves)}"

    @property
    def removed(self) -> tuple[int, ...]:
        """The numbers of heads removed."""
        return tuple(point.n_removed for point in self.curves[0].points)

    @property
    def means(self) -> tuple[float, ...]:
        """The metric at each number of heads; the mean over the orders if there are several."""
        columns = zip(*(curve.points for curve in self.curves), strict=True)
        return tuple(sum(point.value for point in column) / len(column) for column in columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRef:
    """One point of one curve."""

    curve: PruningCurve
    index: int

    @property
    def point(self) -> CurvePoint:
        return self.curve.points[self.index]

    @property
    def taken_last(self) -> tuple[HeadRef, ...]:
        """The heads that are off here and were on at the previous point."""
        if self.index == 0:
            return ()
        before = set(self.curve.points[self.index - 1].gates.off())
        return tuple(head for head in self.point.gates.off() if head not in before)


def grouped(curves: Sequence[PruningCurve]) -> tuple[CurveGroup, ...]:
    """The curves by ranking, in order of first appearance."""
    rankings = dict.fromkeys(curve.ranking for curve in curves)
    return tuple(
        CurveGroup(ranking=ranking, curves=tuple(curve for curve in curves if curve.ranking == ranking))
        for ranking in rankings
    )


MAX_TEXTS = 1000
_FIRST_TEXTS, _PASSES_A_TEXT = 8, 11
"""A first look reads so few texts, each once for every tenth of the heads of a ranking, and scores once."""


class CurvesChanges(SignalGroup):
    """Signals of CurvesState."""

    choice = Signal()
    progress = Signal()
    curves = Signal()
    importance = Signal()
    point = Signal()
    """The one under the cursor, or the one chosen."""
    loaded = Signal()
    """Whether the gates are those of the point chosen."""


class CurvesState:
    """Pruning curves of the open model; at most one pass at a time."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self._session = session
        self.job = Job(CurvesNews, CurvesMeasured, requests)
        self.changed = CurvesChanges()
        self.source: TextSource = "own"
        self.path = ""
        self.metric: MetricName = "loss"
        self.rankings: tuple[Ranking, ...] = DEFAULT_RANKINGS
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
        return self._session.model

    @property
    def texts(self) -> str:
        """Description of a finished pass's texts; empty before."""
        answer = self.job.answer
        return answer.texts if answer is not None and self.job.phase == "done" else ""

    @property
    def can_run(self) -> bool:
        """Whether there is a model and a ranking, and no pass in progress."""
        return self._session.model is not None and bool(self.rankings) and not self.job.is_running

    @property
    def metrics(self) -> tuple[MetricName, ...]:
        """The metrics that can apply to the open model."""
        has_cross = "cross" in self._session.stacks
        return tuple(name for name, one in METRICS.items() if has_cross or not one.needs_cross)

    @property
    def texts_name(self) -> str:
        """The displayed name of the texts."""
        names: dict[TextSource, str] = {"own": "the model's own texts", "samples": "the sample sentences"}
        return names.get(self.source) or PurePath(self.path).name

    @property
    def groups(self) -> tuple[CurveGroup, ...]:
        """The curves as drawn: the complete ones, and the growing one of another ranking."""
        whole = {curve.ranking for curve in self.curves}
        return grouped((*self.curves, *(curve for curve in self.growing if curve.ranking not in whole)))

    @property
    def point(self) -> PointRef | None:
        """The point described: the one under the cursor, or the one chosen."""
        return self.hovered or self.chosen

    @property
    def is_loaded(self) -> bool:
        """Whether the session has the pruning of the chosen point."""
        return self.chosen is not None and self.chosen.point.gates == self._session.gates

    @property
    def progress(self) -> str:
        """Current step and time left, in words."""
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
        """Score the remaining heads again after each removal, or score once."""
        self.is_rescored = is_rescored
        self.changed.choice.emit()

    def run(self) -> None:
        """Begin a pass; earlier curves are removed."""
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
        """Cancel the pass; complete curves stay."""
        if self.job.stop():
            self._drop_growing()
            self.changed.progress.emit()

    def hover(self, found: PointRef | None) -> None:
        """Set the point under the cursor, or none."""
        if found != self.hovered:
            self.hovered = found
            self.changed.point.emit()

    def load(self, found: PointRef) -> None:
        """Switch off in the session the heads that are off at a point, as one step for undo."""
        self.chosen = found
        self._session.head_changes.set_gates(pruning_label(found), found.point.gates)
        self.changed.point.emit()
        self.changed.loaded.emit()

    def load_again(self) -> None:
        """The same for the point chosen last."""
        if self.chosen is not None:
            self.load(self.chosen)

    def handle(self, reply: Reply) -> None:
        """Handle a reply; those for other parts of the window are ignored."""
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
        if self.growing:
            self.growing, self.hovered = (), None
            self.changed.curves.emit()
            self.changed.point.emit()

    def _forget(self) -> None:
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
    """Name of loading a point, in the history."""
    n = found.point.n_removed
    if n == 0:
        return "pruning: every head on"
    return f"pruning: {plural(n, 'head')} off by {RANKINGS[found.curve.ranking].title}"


Step = Literal["idle", "trying", "tried", "saving", "saved", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningRow:
    """One line of before and after: its name, both values, and their ratio."""

    name: str
    before: str
    after: str
    change: str = ""


class PruningChanges(SignalGroup):
    """Signals of PruningState."""

    pruning = Signal()


class PruningState:
    """One attempt at a time; a new one replaces the one before, and late replies are ignored."""

    step: Step = "idle"
    shape: PruneShape = "small"
    shapes: tuple[PruneShape, ...] = ("small",)
    gates: Gates = NO_GATES
    report: PruningReport | None = None
    what: str = ""
    fraction: float | None = None
    message: str = ""

    def __init__(
        self,
        requests: Requests,
    ) -> None:
        self._requests = requests
        self.changed = PruningChanges()
        self._try_number = self._save_number = 0
        self._text, self._target = "", None  # type: str, str | None

    def begin(self, gates: Gates, text: str, target: str | None) -> None:
        """Remove the heads that are off from a copy of the open model, in the form chosen last."""
        self.gates, self._text, self._target = gates, text, target
        self.shape, self.shapes = "small", ("small",)
        self._try()

    def set_shape(self, shape: PruneShape) -> None:
        """Try the other form."""
        if shape in self.shapes and shape != self.shape and self.step not in ("idle", "saving"):
            self.shape = shape
            self._try()

    def save(self, folder: str) -> None:
        """Save the copy that was tried."""
        if self.can_save and folder:
            self._save_number = self._requests.send(SavePruned(tried=self._try_number, folder=folder))
            self._change("saving", what="Saving…")

    def give_up(self) -> None:
        """Cancel the removal; the worker's copy is released."""
        if self.step == "trying":
            self._requests.cancel(self._try_number)
            self._try_number = 0
            self._change("failed", message="Stopped. Nothing was removed.")

    def forget(self) -> None:
        """Ignore further replies: the dialog is closed."""
        self.give_up()
        self._try_number = self._save_number = 0
        self.report = None
        self._requests.send(ForgetPruned())
        self._change("idle")

    @property
    def can_save(self) -> bool:
        """Whether there is a checked copy."""
        return self.step in ("tried", "saved") and self.report is not None and self.report.proof.is_good

    @property
    def is_working(self) -> bool:
        return self.step in ("trying", "saving")

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; those for others are ignored."""
        match reply:
            case PruningTried() if reply.number == self._try_number:
                self.report, self.shapes = reply.report, reply.shapes
                self._change("tried")
            case PrunedSaved() if reply.number == self._save_number:
                self.report = reply.report
                self._change("saved")
            case Progress() if reply.number in (self._try_number, self._save_number) and reply.number:
                self._change(self.step, what=f"{reply.what}…", fraction=reply.fraction)
            case Failed() if reply.number == self._try_number and reply.number:
                self.report = None
                self._change("failed", message=reply.message)
            case Failed() if reply.number == self._save_number and reply.number:
                self._change("tried", message=reply.message)
            case _:
                pass

    def _try(self) -> None:
        self._save_number, self.report = 0, None
        self._try_number = self._requests.send(
            TryPruning(gates=self.gates, text=self._text, target=self._target, shape=self.shape)
        )
        self._change("trying", what="Removing heads…", fraction=0.0)

    def _change(
        self, step: Step, *, what: str = "", fraction: float | None = None, message: str = ""
    ) -> None:
        self.step, self.what, self.fraction, self.message = step, what, fraction, message
        self.changed.pruning.emit()


def removed_by_site(gates: Gates) -> tuple[tuple[str, str], ...]:
    """The heads that are off, one line for each site: its name and its heads."""
    sites: dict[SiteKey, list[HeadRef]] = {}
    for head in sorted(gates.off(), key=lambda head: (STACKS.index(head.stack), head.layer, head.head)):
        sites.setdefault(head.site_key, []).append(head)
    return tuple(
        (f"{stack} L{layer}", ", ".join(f"H{head.head}" for head in heads))
        for (stack, layer), heads in sites.items()
    )


def folded_sentence(gates: Gates) -> str:
    """Explanation for heads that are partly on; empty if there are none."""
    n_folded = sum(0.0 < value < 1.0 for _, value in gates.values)
    if not n_folded:
        return ""
    heads = plural(n_folded, "head is", "heads are")
    return (
        f"{heads} partly on: their gates are multiplied into the weights, so that the output stays the same."
    )


def report_rows(report: PruningReport) -> tuple[PruningRow, ...]:
    """Parameters, size on disk or in memory, and speed, before and after."""
    before, after = report.before, report.after
    rows = [
        PruningRow(
            name="Parameters",
            before=f"{before.n_parameters:,}",
            after=f"{after.n_parameters:,}",
            change=_percent(before.n_parameters, after.n_parameters),
        ),
        _size_row(before, after),
    ]
    if report.speed is not None:
        rows.append(_speed_row(report.speed))
    return tuple(rows)


def waiting_rows() -> tuple[PruningRow, ...]:
    """The same rows before anything is known."""
    return tuple(
        PruningRow(name=name, before="…", after="…") for name in ("Parameters", "Weights", "One pass")
    )


def speed_words(speed: SpeedChange) -> str:
    """Ratio of the times, with quartiles; claims nothing if those lie on both sides of 1."""
    spread = f"{speed.ratio_low:.2f} to {speed.ratio_high:.2f}"
    if not speed.is_certain:
        return f"{spread} × as fast: not certain"
    return f"{speed.ratio:.2f} × as fast ({spread})"


def _size_row(before: ModelSize, after: ModelSize) -> PruningRow:
    is_on_disk = before.file_bytes is not None and after.file_bytes is not None
    old = before.file_bytes if is_on_disk and before.file_bytes is not None else before.n_bytes
    new = after.file_bytes if is_on_disk and after.file_bytes is not None else after.n_bytes
    return PruningRow(
        name="Weights on disk" if is_on_disk else "Weights",
        before=bytes_text(old),
        after=bytes_text(new),
        change=_percent(old, new),
    )


def _speed_row(speed: SpeedChange) -> PruningRow:
    return PruningRow(
        name=f"One pass, {plural(speed.n_tokens, 'token')}",
        before=f"{speed.before_ms:.2f} ms",
        after=f"{speed.after_ms:.2f} ms",
        change=speed_words(speed),
    )


def _percent(before: int, after: int) -> str:
    if before == after:
        return "unchanged"
    share = 100.0 * (after - before) / before if before else 0.0
    return f"{with_sign(share, 1)} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The dialog's text below its table."""

    title: str
    details: str = ""
    is_error: bool = False


def removed_title(gates: Gates, name: str) -> str:
    """Number of heads removed, and the model."""
    return f"Remove {plural(len(gates.off()), 'head')} from {name}"


def outcome_words(state: PruningState) -> Outcome:
    """Status of the attempt: running, checked, saved or failed."""
    report = state.report
    if state.step == "failed":
        return Outcome(title=state.message, is_error=True)
    if state.is_working or report is None:
        return Outcome(title=state.what)
    details = [f"Opens in {report.opens_in}.", *report.notes]
    if state.message:
        return Outcome(title=state.message, details="\n".join(details), is_error=True)
    proof = report.proof
    verdict = "Removed equals switched off" if proof.is_good else "Removed differs from switched off"
    most = f" by more than {format_number(proof.max_difference)}" if proof.max_difference else ""
    checked = (
        f"{verdict}: no logit differs{most}, of {proof.n_logits:,} logits in {plural(proof.n_texts, 'text')}."
    )
    title = f"Saved in {report.folder}." if state.step == "saved" else checked
    if state.step == "saved":
        details.insert(0, checked)
    return Outcome(title=title, details="\n".join(details), is_error=not proof.is_good)
