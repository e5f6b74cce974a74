"""The state of the list of heads that attend alike: which texts, and the pairs that were found."""

from pathlib import PurePath

import numpy as np
from psygnal import Signal, SignalGroup

from attnscope.counting import plural
from attnscope.records.measures import CompareHeads, ComparingNews, HeadPairs, HeadsCompared, PairsSource
from attnscope.records.messages import ModelLoaded
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef, Stack
from attnscope.viewmodels.heads.state import FirstLook
from attnscope.viewmodels.query import Job, Requests
from attnscope.viewmodels.session.state import Session

SOURCE_NAMES: dict[PairsSource, str] = {
    "shown": "the text that is shown",
    "own": "the model's own texts",
    "samples": "the sample sentences",
    "file": "a file",
}
N_PAIRS, N_NEAREST, _N_PASSES = 200, 5, 20


class AlikeChanges(SignalGroup):
    """What of it can change."""

    choice = Signal()
    progress = Signal()
    pairs = Signal()
    selection = Signal()


class AlikeState:
    """How alike the heads of one stack attend; at most one pass is under way."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self.session = session
        self.job = Job(ComparingNews, HeadsCompared, requests)
        self.changed = AlikeChanges()
        self.source: PairsSource = "shown"
        self.path = ""
        self._chosen = ""
        self.first_look = FirstLook(session, lambda: _N_PASSES, lambda: self.job.phase == "empty", self.run)
        session.changed.selection.connect(self._on_selection, max_args=0)

    # What can be read

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks of the open model."""
        return self.session.stacks

    @property
    def stack(self) -> Stack | None:
        """The stack to compare: the one chosen, or the one that is shown."""
        return next((stack for stack in self.stacks if stack == self._chosen), self.session.stack)

    @property
    def can_run(self) -> bool:
        """Whether there is something to compare, and no pass under way."""
        traced = self.session.traced
        has_text = self.source != "shown" or (traced is not None and traced.is_whole)
        return self.stack is not None and has_text and not self.job.is_running

    @property
    def texts_name(self) -> str:
        """The texts as people call them."""
        return PurePath(self.path).name if self.source == "file" else SOURCE_NAMES[self.source]

    @property
    def progress(self) -> str:
        """How far the pass is, in words."""
        news = self.job.news
        return f"{news.n_done:,} of {news.n_total:,} texts" if news is not None else ""

    @property
    def found(self) -> HeadPairs | None:
        """How alike the heads are, when it is known."""
        return self.job.answer.pairs if self.job.answer is not None else None

    @property
    def selected(self) -> HeadRef | None:
        """The head that the session has selected last."""
        return self.session.primary

    @property
    def statement(self) -> str:
        """What the list is of."""
        if self.job.answer is None:
            return ""
        found, texts = self.job.answer.pairs, self.job.answer.texts
        n_pairs = len(found.heads) * (len(found.heads) - 1) // 2
        listed = f"the {N_PAIRS} most alike of {n_pairs:,} pairs" if n_pairs > N_PAIRS else "every pair"
        return (
            f"{listed}; {found.stack}, {texts}: {plural(found.n_texts, 'text')}, "
            f"{plural(found.n_queries, 'query', 'queries')}; mean Jensen–Shannon divergence between rows, "
            "0 to ln 2 = 0.693 nats (Clark et al. 2019)"
        )

    def pairs(self) -> tuple[tuple[HeadRef, HeadRef, float], ...]:
        """The pairs of heads that attend most alike, the most alike first, with the divergence in nats."""
        found = self.found
        if found is None:
            return ()
        above = np.triu_indices(len(found.heads), k=1)
        values = found.divergences[above]
        order = np.argsort(values, kind="stable")[:N_PAIRS]
        pairs = zip(above[0][order], above[1][order], values[order], strict=True)
        return tuple((found.heads[int(i)], found.heads[int(j)], float(value)) for i, j, value in pairs)

    def nearest(self, head: HeadRef) -> tuple[tuple[HeadRef, float], ...]:
        """The heads that attend most like one, with the divergence in nats."""
        found = self.found
        if found is None or head not in found.heads:
            return ()
        row = found.heads.index(head)
        order = [int(k) for k in np.argsort(found.divergences[row], kind="stable") if int(k) != row]
        return tuple((found.heads[k], float(found.divergences[row, k])) for k in order[:N_NEAREST])

    # Intents

    def choose_texts(self, source: PairsSource, path: str = "") -> None:
        """Compare over other texts."""
        self.source, self.path = source, path
        self.changed.choice.emit()

    def choose_stack(self, name: str) -> None:
        """Compare the heads of another stack."""
        self._chosen = name
        self.changed.choice.emit()

    def run(self) -> None:
        """Begin a pass; the pairs before stay until the new ones come."""
        stack, traced = self.stack, self.session.traced
        if not self.can_run or stack is None:
            return
        trace = traced.number if traced is not None else 0
        self.job.start(CompareHeads(stack=stack, source=self.source, path=self.path, trace=trace))
        self.changed.progress.emit()

    def stop(self) -> None:
        """Give the pass up."""
        if self.job.stop():
            self.changed.progress.emit()

    def select(self, row: int) -> None:
        """Select both heads of a pair for the whole window."""
        first, second, _value = self.pairs()[row]
        self.session.select_heads((first, second))

    def handle(self, reply: Reply) -> None:
        """Take a reply; those of other parts of the window are passed over."""
        if isinstance(reply, ModelLoaded):
            self.job.forget()
            self.changed.choice.emit()
            self.changed.pairs.emit()
            self.changed.progress.emit()
        elif self.job.take(reply):
            if self.job.phase == "done":
                self.changed.pairs.emit()
            self.changed.progress.emit()

    def _on_selection(self) -> None:
        self.changed.selection.emit()
        self.changed.choice.emit()
