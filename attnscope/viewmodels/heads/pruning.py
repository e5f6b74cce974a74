"""The dialog that removes heads: what was asked, what came back, what can be done now. No Qt, no torch."""

from dataclasses import dataclass
from typing import Literal

from psygnal import Signal, SignalGroup

from attnscope.counting import bytes_text, plural, with_sign
from attnscope.records.importance import (
    ForgetPruned,
    ModelSize,
    PrunedSaved,
    PruneShape,
    PruningReport,
    PruningTried,
    SavePruned,
    SpeedChange,
    TryPruning,
)
from attnscope.records.messages import Failed, Progress
from attnscope.records.requests import Reply
from attnscope.records.sites import NO_GATES, STACKS, Gates, HeadRef, SiteKey
from attnscope.viewmodels.query import Requests

Step = Literal["idle", "trying", "tried", "saving", "saved", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningRow:
    """One line of before and after: what it is, both values, and how they relate."""

    name: str
    before: str
    after: str
    change: str = ""


class PruningChanges(SignalGroup):
    """What of it can change."""

    pruning = Signal()


class PruningState:
    """One attempt at a time; a new one forgets the one before, and late replies change nothing."""

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
        """Remove the heads that are off from a copy of the open model, in the shape chosen last."""
        self.gates, self._text, self._target = gates, text, target
        self.shape, self.shapes = "small", ("small",)
        self._try()

    def set_shape(self, shape: PruneShape) -> None:
        """Try the other shape."""
        if shape in self.shapes and shape != self.shape and self.step not in ("idle", "saving"):
            self.shape = shape
            self._try()

    def save(self, folder: str) -> None:
        """Save the copy that was tried."""
        if self.can_save and folder:
            self._save_number = self._requests.send(SavePruned(tried=self._try_number, folder=folder))
            self._change("saving", what="Saving…")

    def give_up(self) -> None:
        """Stop removing heads; what the worker was at is let go."""
        if self.step == "trying":
            self._requests.cancel(self._try_number)
            self._try_number = 0
            self._change("failed", message="Stopped. Nothing was removed.")

    def forget(self) -> None:
        """The dialog is closed: nothing that comes is of interest."""
        self.give_up()
        self._try_number = self._save_number = 0
        self.report = None
        self._requests.send(ForgetPruned())
        self._change("idle")

    @property
    def can_save(self) -> bool:
        """Whether there is a copy that was proved."""
        return self.step in ("tried", "saved") and self.report is not None and self.report.proof.is_good

    @property
    def is_working(self) -> bool:
        """Whether the worker is at it."""
        return self.step in ("trying", "saving")

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those for others change nothing."""
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
    """What happens to heads that are partly on; empty when there are none."""
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
    """How the times relate, with the quartiles; nothing is claimed where those lie on both sides of 1."""
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
    """What the dialog says below its table."""

    title: str
    details: str = ""
    is_error: bool = False


def removed_title(gates: Gates, name: str) -> str:
    """How many heads go from which model."""
    return f"Remove {plural(len(gates.off()), 'head')} from {name}"


def outcome_words(state: PruningState) -> Outcome:
    """How the attempt stands: working, proved, saved or failed."""
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
    most = f" by more than {proof.max_difference:.1e}" if proof.max_difference else ""
    checked = (
        f"{verdict}: no logit differs{most}, of {proof.n_logits:,} logits in {plural(proof.n_texts, 'text')}."
    )
    title = f"Saved in {report.folder}." if state.step == "saved" else checked
    if state.step == "saved":
        details.insert(0, checked)
    return Outcome(title=title, details="\n".join(details), is_error=not proof.is_good)
