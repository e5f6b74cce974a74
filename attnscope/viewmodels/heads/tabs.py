"""States of tabs of the Heads page: which heads attend alike, and what the weights of the selected head show,
without any text.
"""

from pathlib import PurePath
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal, SignalGroup

from attnscope.counting import percent, plural, with_sign
from attnscope.records.measures import (
    CircuitKind,
    CompareHeads,
    ComparingNews,
    HeadCircuit,
    HeadPairs,
    HeadsCompared,
    HeadWeightsFound,
    PairsSource,
    ShowWeights,
    TokenPair,
    WeightPart,
    WeightsNews,
    WeightsShown,
)
from attnscope.records.messages import ModelLoaded
from attnscope.records.models import ModelInfo
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef, Stack
from attnscope.viewmodels.heads.state import FirstLook
from attnscope.viewmodels.query import Job, Requests
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.viewmodels.session.state import Session

SOURCE_NAMES: dict[PairsSource, str] = {
    "shown": "the text that is shown",
    "own": "the model's own texts",
    "samples": "the sample sentences",
    "file": "a file",
}
N_PAIRS, N_NEAREST, _N_PASSES = 200, 5, 20


class AlikeChanges(SignalGroup):
    """Signals of AlikeState."""

    choice = Signal()
    progress = Signal()
    pairs = Signal()
    selection = Signal()


class AlikeState:
    """Similarity of the heads of one stack; at most one pass at a time."""

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
        """The stack to compare: the chosen one, or the one shown."""
        return next((stack for stack in self.stacks if stack == self._chosen), self.session.stack)

    @property
    def can_run(self) -> bool:
        """Whether there is something to compare, and no pass in progress."""
        traced = self.session.traced
        has_text = self.source != "shown" or (traced is not None and traced.is_whole)
        return self.stack is not None and has_text and not self.job.is_running

    @property
    def texts_name(self) -> str:
        """The displayed name of the texts."""
        return PurePath(self.path).name if self.source == "file" else SOURCE_NAMES[self.source]

    @property
    def progress(self) -> str:
        """Progress of the pass, in words."""
        news = self.job.news
        return f"{news.n_done:,} of {news.n_total:,} texts" if news is not None else ""

    @property
    def found(self) -> HeadPairs | None:
        """Similarity of the heads, once known."""
        return self.job.answer.pairs if self.job.answer is not None else None

    @property
    def selected(self) -> HeadRef | None:
        """The head that the session has selected last."""
        return self.session.primary

    @property
    def statement(self) -> str:
        """Basis of the list."""
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
        """The most similar pairs of heads, the most similar first, with the divergence in nats."""
        found = self.found
        if found is None:
            return ()
        above = np.triu_indices(len(found.heads), k=1)
        values = found.divergences[above]
        order = np.argsort(values, kind="stable")[:N_PAIRS]
        pairs = zip(above[0][order], above[1][order], values[order], strict=True)
        return tuple((found.heads[int(i)], found.heads[int(j)], float(value)) for i, j, value in pairs)

    def nearest(self, head: HeadRef) -> tuple[tuple[HeadRef, float], ...]:
        """The heads most similar to one, with the divergence in nats."""
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
        """Begin a pass; the old pairs stay until the new ones arrive."""
        stack, traced = self.stack, self.session.traced
        if not self.can_run or stack is None:
            return
        trace = traced.number if traced is not None else 0
        self.job.start(CompareHeads(stack=stack, source=self.source, path=self.path, trace=trace))
        self.changed.progress.emit()

    def stop(self) -> None:
        """Cancel the pass."""
        if self.job.stop():
            self.changed.progress.emit()

    def select(self, row: int) -> None:
        """Select both heads of a pair for the whole window."""
        first, second, _value = self.pairs()[row]
        self.session.select_heads((first, second))

    def handle(self, reply: Reply) -> None:
        """Handle a reply; those for other parts of the window are ignored."""
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


PairEnd = Literal["strongest", "weakest"]
END_NAMES: dict[PairEnd, str] = {"strongest": "the largest values", "weakest": "the smallest values"}
KIND_NAMES: dict[CircuitKind, str] = {"ov": "What it writes (OV)", "qk": "What it looks for (QK)"}
KIND_COLUMNS: dict[CircuitKind, tuple[str, str]] = {"ov": ("read", "raised"), "qk": ("query", "key")}
KIND_TIPS: dict[CircuitKind, str] = {
    "ov": "E W_V W_O Uᵀ: attending to the token on the left raises the logit of the one on the right by so"
    " much, before the last norm's scale. (Elhage et al. 2021)",
    "qk": "E W_Q W_Kᵀ Eᵀ · scale: so high does the token on the left, as a query, score the one on the right"
    " as a key. (Elhage et al. 2021)",
}
LEFT_OUT = (
    "Of the weights alone: positions, biases and what other layers add are left out; gates and changes of"
    " heads change nothing here."
)
ENERGY_SHARE = 0.9


class WeightsChanges(SignalGroup):
    """Signals of WeightsState."""

    head = Signal()
    found = Signal()
    progress = Signal()
    end = Signal()
    """Which pairs are shown."""


class WeightsState:
    """The selected head's products; at most one pass at a time."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self._session = session
        self.job = Job(WeightsNews, WeightsShown, requests, is_last=lambda shown: shown.found.is_whole)
        self.changed = WeightsChanges()
        self.end: PairEnd = "strongest"
        self._known: dict[HeadRef, HeadWeightsFound] = {}
        self._is_watched = False
        session.changed.selection.connect(self._on_head, max_args=0)
        session.changed.model.connect(self._on_head, max_args=0)

    # What can be read

    @property
    def model(self) -> ModelInfo | None:
        return self._session.model

    @property
    def head(self) -> HeadRef | None:
        """The head that the session has selected last."""
        return self._session.primary

    @property
    def found(self) -> HeadWeightsFound | None:
        """Results for the head; None while there are none."""
        head, partly = self.head, self.job.answer
        if head in self._known:
            return self._known[head]
        return partly.found if partly is not None and partly.found.head == head else None

    @property
    def can_run(self) -> bool:
        """Whether there is a head not yet completed, and no pass for it in progress."""
        return self.head is not None and self.head not in self._known and not self.job.is_running

    @property
    def progress(self) -> str:
        """Progress of the pass, in words."""
        news = self.job.news
        if not self.job.is_running:
            return ""
        if news is None or not news.n_total:
            return "Reading the weights…"
        return f"{news.about}: {news.n_done:,} of {news.n_total:,} tokens"

    @property
    def stage(self) -> Placeholder | None:
        """Placeholder for the pictures; None if there are some."""
        found, head = self.found, self.head
        if self.model is None or head is None:
            return Placeholder(
                kind="empty",
                title="What do a head's weights do?",
                hint="Open a model and select a head: its strongest token pairs and its singular values "
                "appear here, without any text.",
            )
        refusals = {part.refusal or part.no_spectrum for part in found.parts} if found is not None else set()
        is_refused = found is not None and all(
            part.circuit is None and part.spectrum is None for part in found.parts
        )
        is_known = head in self._known
        if is_refused if is_known else self.job.phase == "failed":
            hint = "\n".join(sorted(refusals)) if is_known else self.job.error
            return Placeholder(kind="failed", title="These weights cannot be read", hint=hint)
        if found is not None and not is_refused:
            return None
        if self.job.phase == "stopped":
            return Placeholder(
                kind="empty", title="Stopped", hint="Press Compute to continue with this head."
            )
        return Placeholder(
            kind="waiting",
            title=self.progress or "Reading the weights…",
            hint="Other pages stay usable.",
            is_working=True,
            fraction=self.job.fraction,
        )

    def _part(self, kind: CircuitKind) -> WeightPart | None:
        found = self.found
        return found.part(kind) if found is not None else None

    def pairs(self, kind: CircuitKind) -> tuple[TokenPair, ...]:
        """The token pairs of one product, of the chosen end; readable ones come first."""
        part = self._part(kind)
        if part is None or part.circuit is None:
            return ()
        circuit = part.circuit
        return readable_first(circuit.largest if self.end == "strongest" else circuit.smallest)

    def note(self, kind: CircuitKind) -> str:
        """Note on one product: its sameness, or why there are no pairs."""
        part = self._part(kind)
        if part is None:
            return ""
        if part.circuit is not None:
            return sameness_words(part.circuit)
        if part.refusal:
            return part.refusal
        return "Not computed." if self.job.phase == "stopped" else "Multiplying…"

    def statement(self) -> str:
        """Summary of the layer's singular values, in one line."""
        said = []
        for kind in ("qk", "ov"):
            part = self._part(kind)
            if part is None or part.spectrum is None or self.head is None:
                continue
            spectrum = part.spectrum
            alone = [n_dimensions(row) for row in spectrum.single_energy()]
            said.append(
                f"{kind.upper()}: {percent(ENERGY_SHARE)} of Σσ² in {alone[self.head.head]} of"
                f" {spectrum.single.shape[1]} dimensions (the layer's heads one by one {sum(alone)}, together"
                f" {n_dimensions(spectrum.stacked_energy())})"
            )
        return " · ".join(said)

    # Intents

    def watch(self, is_watched: bool) -> None:
        """Note whether the tab is visible."""
        self._is_watched = is_watched
        self._ask()

    def run(self) -> None:
        """Analyse the head again after a stop or a failure."""
        self._ask(is_again=True)

    def stop(self) -> None:
        """Cancel the pass; results so far stay."""
        if self.job.stop():
            self.changed.progress.emit()
            self.changed.found.emit()

    def show_end(self, end: str) -> None:
        """Show the pairs with the largest values, or those with the smallest."""
        for known in END_NAMES:
            if known == end and known != self.end:
                self.end = known
                self.changed.end.emit()

    def step(self, by: int) -> None:
        """Select the next head of the model, or one further on or back."""
        heads = [head for site in self._session.sites for head in site.heads]
        if self.head in heads:
            place = min(max(heads.index(self.head) + by, 0), len(heads) - 1)
            self._session.select_heads((heads[place],))

    def handle(self, reply: Reply) -> None:
        """Handle a reply; those for other parts of the window are ignored."""
        if isinstance(reply, ModelLoaded):
            self._forget()
        elif self.job.take(reply):
            answer = self.job.answer
            if answer is not None and self.job.phase == "done":
                self._known[answer.found.head] = answer.found
            if not isinstance(reply, WeightsNews):
                self.changed.found.emit()
            self.changed.progress.emit()

    # Inside

    def _forget(self) -> None:
        self._known.clear()
        self.job.forget()
        self.changed.head.emit()
        self.changed.found.emit()
        self.changed.progress.emit()
        self._ask()

    def _on_head(self) -> None:
        self.changed.head.emit()
        self._ask()

    def _ask(self, *, is_again: bool = False) -> None:
        """Request the selected head, unless that was done already."""
        head = self.head
        if not self._is_watched or self.model is None or head is None:
            return
        request = ShowWeights(head=head)
        if head in self._known:
            self.job.forget()
        elif request != self.job.asked or is_again:
            self.job.start(request)
        else:
            return
        self.changed.found.emit()
        self.changed.progress.emit()


def readable_first(pairs: tuple[TokenPair, ...]) -> tuple[TokenPair, ...]:
    """The readable pairs in order, then those with incomplete bytes."""
    return tuple(sorted(pairs, key=lambda pair: not pair.is_text))


def n_dimensions(energy: NDArray[np.float64], share: float = ENERGY_SHARE) -> int:
    """Whether a head between two texts mostly raises other words than those it attends to.

    None do of a head whose weights are all 0.
    """
    return int(np.searchsorted(energy, share - 1e-12) + 1) if energy[-1] > 0 else 0


def _translates(circuit: HeadCircuit) -> bool:
    """Whether a head copies its input, or attends to tokens like its own, in words."""
    pairs = [pair for pair in circuit.largest if pair.is_text]
    n_same = sum(pair.first.piece.strip().lower() == pair.second.piece.strip().lower() for pair in pairs)
    return circuit.head.stack == "cross" and 2 * n_same < len(pairs)


def sameness_words(circuit: HeadCircuit) -> str:
    """Whether a head copies what it reads, or looks for what is like itself, in words."""
    value = circuit.sameness
    if value != value:
        return "Σ Re λ / Σ |λ| is not known: the head's weights are not all finite numbers"
    if circuit.kind == "ov":
        copies = "it writes a translation of what it looks at" if _translates(circuit) else "it copies"
        word = copies if value > 0.5 else "it suppresses what it reads" if value < -0.5 else "mixed"
    else:
        word = (
            "it looks for tokens like itself"
            if value > 0.5
            else "it avoids tokens like itself"
            if value < -0.5
            else "mixed"
        )
    return f"Σ Re λ / Σ |λ| = {with_sign(value)}: {word}"
