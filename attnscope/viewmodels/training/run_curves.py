"""The curves of one training run, filled from its events.

Must not import Qt.
"""

import math
from collections.abc import Iterable

import numpy as np

from attnscope.records.runs import Evaluated, Started, Step, TrainingEvent
from attnscope.viewmodels.heads.curve_data import CurveData


class RunCurves:
    """What a run has told so far, one curve for each quantity.

    Events are taken in the order of their attempts: a Started event opens an attempt, and what earlier
    attempts said about later steps is superseded by it.
    """

    def __init__(self) -> None:
        self.train_loss = CurveData()
        self.validation_loss = CurveData()
        self.accuracy = CurveData()
        self.learning_rate = CurveData()
        self.gradient_norm = CurveData()
        self.tokens_per_s = CurveData()
        self.step_tokens = CurveData()
        self.open_heads = CurveData()
        self.batch_texts = CurveData()
        self.text_tokens = CurveData()
        self.next_sentence = CurveData()
        self.spans: dict[str, CurveData] = {}
        self.resumed_at: tuple[int, ...] = ()
        self.objective = ""

    @property
    def all(self) -> tuple[CurveData, ...]:
        return (
            self.train_loss,
            self.validation_loss,
            self.accuracy,
            self.learning_rate,
            self.gradient_norm,
            self.tokens_per_s,
            self.step_tokens,
            self.open_heads,
            self.batch_texts,
            self.text_tokens,
            self.next_sentence,
            *self.spans.values(),
        )

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return sum(curve.version for curve in self.all)

    @property
    def last_step(self) -> int:
        """The largest step told so far, 0 before the first."""
        lasts = [curve.steps[-1] for curve in (self.train_loss, self.validation_loss) if len(curve)]
        return int(max(lasts, default=0))

    @property
    def last_accuracy(self) -> float:
        """The newest on held-out data, NaN before the first."""
        return float(self.accuracy.values[-1]) if len(self.accuracy) else math.nan

    def clear(self) -> None:
        """Forget the run."""
        for curve in self.all:
            curve.clear()
        self.resumed_at, self.objective = (), ""

    def add(self, events: Iterable[TrainingEvent]) -> None:
        """Take in events, in batches between the starts of attempts."""
        steps: list[Step] = []
        looks: list[Evaluated] = []
        for event in events:
            match event:
                case Step():
                    steps.append(event)
                case Evaluated():
                    looks.append(event)
                case Started():
                    self._flush(steps, looks)
                    steps, looks = [], []
                    self._begin_attempt(event)
                case _:
                    pass
        self._flush(steps, looks)

    def _begin_attempt(self, event: Started) -> None:
        self.objective = event.objective or self.objective
        is_resumed = event.step > 0 or self.last_step > 0
        for curve in self.all:
            curve.restart_after(event.step)
        kept = tuple(step for step in self.resumed_at if step < event.step)
        self.resumed_at = (*kept, event.step) if is_resumed and event.step > 0 else kept

    def _flush(self, steps: list[Step], looks: list[Evaluated]) -> None:
        if steps:
            table = np.array(
                [
                    (s.step, s.loss, s.learning_rate, s.gradient_norm, s.tokens_per_s, s.n_tokens)
                    for s in steps
                ],
                dtype=np.float64,
            )
            curves = (
                self.train_loss,
                self.learning_rate,
                self.gradient_norm,
                self.tokens_per_s,
                self.step_tokens,
            )
            for curve, column in zip(curves, table.T[1:], strict=True):
                curve.extend(table[:, 0], column)
        if looks:
            table = np.array([(look.step, look.loss, look.accuracy) for look in looks], dtype=np.float64)
            self.validation_loss.extend(table[:, 0], table[:, 1])
            self.accuracy.extend(table[:, 0], table[:, 2])
        heads = [(s.step, s.open_heads) for s in steps if s.open_heads is not None]
        pairs = [
            (look.step, look.next_sentence_accuracy)
            for look in looks
            if look.next_sentence_accuracy is not None
        ]
        for look in looks:
            for head, z in look.spans or ():
                self.spans.setdefault(head, CurveData()).extend(np.array([float(look.step)]), np.array([z]))
        sizes = [(s.step, s.n_texts) for s in steps if s.n_texts is not None]
        lengths = [(s.step, s.text_tokens) for s in steps if s.text_tokens is not None]
        for curve, told in (
            (self.open_heads, heads),
            (self.next_sentence, pairs),
            (self.batch_texts, sizes),
            (self.text_tokens, lengths),
        ):
            if told:
                table = np.array(told, dtype=np.float64)
                curve.extend(table[:, 0], table[:, 1])
