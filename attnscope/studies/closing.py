"""Learning which heads of one stack to close, and what the model is worth without them.

| symbol  | meaning                                                     |
|---------|-------------------------------------------------------------|
| penalty | λ of the L0 term; a larger one closes more gates            |
| kept    | heads of the stack whose gate is not 0 when learning ends   |
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.analysis.batches import Sample, build_batches
from attnscope.analysis.hard_concrete import learn_gates
from attnscope.analysis.importance import heads_of
from attnscope.analysis.metrics import make_metric
from attnscope.analysis.subject import Batch, Subject, subject_of
from attnscope.models import Model
from attnscope.nn.attention import Probe
from attnscope.records.importance import LearnedGates, MetricName, Progress
from attnscope.records.models import Form
from attnscope.records.sites import Gates, HeadRef, Site, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What learning the gates of one stack under one penalty left; BLEU is NaN where it was not asked for."""

    stack: Stack
    penalty: float
    kept: tuple[HeadRef, ...]
    n_heads: int
    accuracy: float
    loss: float
    bleu: float = math.nan


class StackSubject:
    """A model of which only one stack's heads are seen, so that only they get gates."""

    def __init__(self, subject: Subject, stack: Stack) -> None:
        self._subject = subject
        self.form: Form = subject.form
        self.sites: tuple[Site, ...] = tuple(site for site in subject.sites if site.stack == stack)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self._subject.device

    def studying(self) -> AbstractContextManager[None]:
        """As the whole model."""
        return self._subject.studying()

    def hidden(self, batch: Batch, probe: Probe | None = None) -> Tensor:
        """As the whole model."""
        return self._subject.hidden(batch, probe)

    def logits(self, hidden: Tensor) -> Tensor:
        """As the whole model."""
        return self._subject.logits(hidden)


def close_gates(
    model: Model,
    stack: Stack,
    penalty: float,
    learning: Sequence[Sample],
    measuring: Sequence[Sample],
    *,
    n_steps: int,
    seed: int = 0,
    has_bleu: bool = False,
) -> Iterator[Progress | Closing]:
    """Learn the gates of one stack, then measure the model with the closed heads removed."""
    subject = StackSubject(subject_of(model), stack)
    batches = build_batches(model, learning)
    heads = heads_of(subject)
    for event in learn_gates(subject, batches, penalty=penalty, n_steps=n_steps, seed=seed):
        if isinstance(event, LearnedGates):
            off = Gates.of(dict.fromkeys(event.gates.off(), 0.0))
            yield Closing(
                stack=stack,
                penalty=penalty,
                kept=tuple(head for head in heads if off.value(head) != 0.0),
                n_heads=len(heads),
                accuracy=value_of(model, measuring, off, "accuracy"),
                loss=value_of(model, measuring, off, "loss"),
                bleu=value_of(model, measuring, off, "bleu") if has_bleu else math.nan,
            )
        else:
            about = f"{stack}, penalty {penalty:g}: {event.about}"
            yield Progress(n_done=event.n_done, n_total=event.n_total, about=about)


def value_of(model: Model, samples: Sequence[Sample], gates: Gates, name: MetricName) -> float:
    """A metric over some texts with some heads off."""
    return make_metric(name, model, subject_of(model), build_batches(model, samples), samples).of(gates)


def fewest_kept(closings: Sequence[Closing], stack: Stack, least: float) -> Closing | None:
    """Of one stack, the closing that keeps fewest heads with an accuracy of `least` or more."""
    good = [one for one in closings if one.stack == stack and one.accuracy >= least]
    return min(good, key=lambda one: len(one.kept), default=None)
