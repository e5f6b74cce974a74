"""Head roles and learned gates (Voita et al. 2019, sections 5 and 6).

A head's role is its strongest after `analysis/roles.py`, or none. Gates are learned for one stack at a time,
the other stacks left alone, with the model's weights fixed. With trees, heads that follow
dependency relations count too, and the best of them are set beside the paper's.

| symbol  | meaning                                                     |
|---------|-------------------------------------------------------------|
| penalty | λ of the L0 term; a larger one closes more gates            |
| kept    | heads of the stack whose gate is not 0 when learning ends   |
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnscope.analysis.batches import Sample, build_batches
from attnscope.analysis.corpus import measure_corpus
from attnscope.analysis.corpus_texts import Text
from attnscope.analysis.importance import heads_of, learn_gates
from attnscope.analysis.metrics import make_metric, require_counter
from attnscope.analysis.model_adapter import Subject, TokenBatch, subject_of
from attnscope.analysis.roles import find_roles
from attnscope.analysis.syntax import measure_syntax
from attnscope.analysis.words import AlignedPair
from attnscope.conllu import Tree, read_conllu
from attnscope.models import Model, load
from attnscope.nn.attention import Probe
from attnscope.records.charts import Chart, Series
from attnscope.records.findings import SYNTACTIC_MARGIN, Direction, SyntaxTable
from attnscope.records.importance import LearnedGates, MetricName, PartsDone
from attnscope.records.measures import CorpusProgress, HeadTable, Role, difference_of, has_sign
from attnscope.records.models import Form
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site, Stack
from attnscope.studies.making import DEMO, halves
from attnscope.studies.study import Cell, Choices, PaperComparison, Study, StudyCard

CARD = StudyCard(
    name="roles",
    place=5,
    paper="Voita et al. 2019, Analyzing multi-head self-attention",
    question="Which roles do heads have, and are those with a role the ones that learned gates keep?",
    takes=("model", "corpus", "trees"),
)

PENALTIES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
RELATIONS: tuple[tuple[str, Direction, str, str], ...] = (
    ("obj", "to dependent", "verb → object", "0.78 against 0.41 (WMT)"),
    ("nsubj", "to head", "subject → verb", "0.52 against 0.35 (WMT)"),
    ("nsubj", "to dependent", "verb → subject", "—"),
    ("obj", "to head", "object → verb", "—"),
    ("amod", "to head", "adjective → noun", "—"),
    ("advmod", "to head", "adverb → verb", "—"),
)
"""Relation and direction, in words, and the paper's best head against its best fixed offset."""
TOLERANCE = 0.01
BLEU_TOLERANCE = 0.5
_N_TEXTS, _N_STEPS, _N_TREES = 256, 200, 1000
_PUBLISHED_KEPT = 10 / 48
_TELLING = ("positional", "identity", "induction", "duplicate", "syntactic", "rare")
"""Roles of Voita's kind; resting on the first token or on separators, and looking at all alike, are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The gates of one stack learned under one penalty; BLEU is NaN if not requested."""

    stack: Stack
    penalty: float
    kept: tuple[HeadRef, ...]
    n_heads: int
    accuracy: float
    loss: float
    bleu: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Everything that was measured: each head's strongest role, what closing left, and the trees' table."""

    roles: Mapping[HeadRef, Role | None]
    closings: tuple[Closing, ...]
    whole: float
    bleu: float = math.nan
    syntax: SyntaxTable | None = None

    def name(self, head: HeadRef) -> str:
        """The name of a head's role, or `none`."""
        role = self.roles[head]
        return "none" if role is None else role.name

    def n_telling(self, heads: Sequence[HeadRef]) -> int:
        """Number of some heads that have a role of Voita's kind."""
        return sum(self.name(head) in _TELLING for head in heads)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks whose gates were learned."""
        return tuple(dict.fromkeys(one.stack for one in self.closings))


def reproduce(choices: Choices) -> Iterator[PartsDone | Study]:
    """Find every head's role, then learn gates under several penalties, stack by stack."""
    model = load(choices.model or DEMO, device=choices.device)
    if _translates(model):
        require_counter()
    trees = [] if choices.trees is None else read_conllu(choices.trees, 8 if choices.is_quick else _N_TREES)
    learning, measuring, source = halves(model, 8 if choices.is_quick else _N_TEXTS, choices.corpus)
    table: HeadTable | None = None
    for event in measure_corpus(model, [text_of(sample) for sample in measuring]):
        if isinstance(event, HeadTable):
            table = event
        else:
            yield _told(event, "measuring heads")
    syntax: SyntaxTable | None = None
    for arcs in _measure_trees(model, trees, choices):
        if isinstance(arcs, SyntaxTable):
            syntax = arcs
        else:
            yield _told(arcs, "following trees")
    closings: list[Closing] = []
    for closed in _close_all(model, learning, measuring, choices):
        if isinstance(closed, Closing):
            closings.append(closed)
        else:
            yield closed
    if table is None:
        raise AssertionError("unreachable: a measuring pass ends with its table")
    found = Found(
        roles={head: next(iter(find_roles(head, table, syntax)), None) for head in table.heads},
        closings=tuple(closings),
        whole=_value_of(model, measuring, NO_GATES, "accuracy"),
        bleu=_value_of(model, measuring, NO_GATES, "bleu") if _translates(model) else math.nan,
        syntax=syntax,
    )
    texts = f"{len(learning)} to learn on, {len(measuring)} to measure; {source}"
    yield _study(choices, model, found, texts)


def text_of(sample: Sample) -> Text:
    """A sample as a text, or a pair."""
    if isinstance(sample, AlignedPair):
        return sample.texts
    if isinstance(sample, str | tuple):
        return sample
    return sample.source if sample.target is None else (sample.source, sample.target)


_DIFFERENCES = (
    "Voita et al. train the weights on along with the gates, so that the heads that stay take over from those"
    " that go; ours stay as they are, which costs more for the same number of heads.",
    "Their encoder has 48 heads in 6 layers and reads WMT sentences, or subtitles; ours is a small model's."
    " Their quality is BLEU; ours is that of greedy translations, and the accuracy of each token with the"
    " right ones before it.",
    "Gates that end between 0 and 1 are set to 1 for measuring: only removed heads can be removed.",
    "Rare words are the two least frequent tokens of a sentence in the corpus measured, not in training.",
)

_DEMO_DIFFERENCE = (
    "The demo solves its small grammar completely and needs no attention in its encoder for that, so that its"
    " encoder has neither heads worth keeping nor positional ones. Real sentences ask for more."
)

_TREES = {
    True: "Relations are those of Universal Dependencies and hand-made trees; theirs came from a parser.",
    False: "No trees were given (--conllu FILE): syntactic heads show under other roles or none.",
}


def _measure_trees(
    model: Model, trees: Sequence[Tree], choices: Choices
) -> Iterator[CorpusProgress | SyntaxTable]:
    if choices.trees is not None:
        yield from measure_syntax(model, trees, min_arcs=1 if choices.is_quick else 20)


def _close_all(
    model: Model, learning: Sequence[Sample], measuring: Sequence[Sample], choices: Choices
) -> Iterator[PartsDone | Closing]:
    penalties = PENALTIES[2:4] if choices.is_quick else PENALTIES
    n_steps = 4 if choices.is_quick else _N_STEPS
    for stack in dict.fromkeys(site.stack for site in model.sites):
        for penalty in penalties:
            yield from _close_gates(
                model,
                stack,
                penalty,
                learning,
                measuring,
                n_steps=n_steps,
                seed=choices.seed,
                has_bleu=stack == "encoder" and _translates(model),
            )


def _translates(model: Model) -> bool:
    return model.network.output_kind == "translation"


def _study(choices: Choices, model: Model, found: Found, texts: str) -> Study:
    counts = Counter(found.name(head) for head in found.roles).most_common()
    trees = (
        "none"
        if choices.trees is None or found.syntax is None
        else (f"{choices.trees.name}: {found.syntax.statement}")
    )
    return Study(
        name=CARD.name,
        paper=CARD.paper,
        question=CARD.question,
        setting=(
            ("model", f"{model.info.name}, {len(found.roles)} heads"),
            ("texts", texts),
            ("trees", trees),
            ("accuracy of the whole model", f"{found.whole:.4f}"),
            ("BLEU of the whole model", "—" if math.isnan(found.bleu) else f"{found.bleu:.1f}, greedy"),
            ("penalties λ", ", ".join(f"{p:g}" for p in sorted({one.penalty for one in found.closings}))),
            ("roles", ", ".join(f"{n} {name}" for name, n in counts)),
            ("seed", str(choices.seed)),
        ),
        comparisons=_compare(found),
        differences=(
            *_DIFFERENCES,
            *(() if choices.model else (_DEMO_DIFFERENCE,)),
            _TREES[found.syntax is not None],
        ),
        charts=_charts(found),
        columns=(
            *("stack", "head", "role", "penalties under which it stays", "what it does"),
            *("penalty", "heads kept", "accuracy", "loss", "BLEU"),
        ),
        data=tuple(_rows(found)),
        model=model.info.name,
        sha256=model.info.sha256,
    )


def _compare(found: Found) -> tuple[PaperComparison, ...]:
    rows = [_positional(found, stack) for stack in found.stacks if stack != "cross"]
    if found.syntax is not None:
        rows += _syntactic(found.syntax)
    for stack in found.stacks:
        rows += _kept_rows(found, stack)
    return (*rows, *_bleu_rows(found))


def _positional(found: Found, stack: Stack) -> PaperComparison:
    own = [head for head in found.roles if head.stack == stack]
    positional = [head for head in own if found.name(head) in ("positional", "identity")]
    layers = ", ".join(str(n) for n in sorted({head.layer for head in positional}))
    is_encoder = stack == "encoder"
    return PaperComparison(
        what=f"heads with a positional role, {stack}",
        published="direction only: there are some" if is_encoder else "—",
        where="section 5.1" if is_encoder else "—",
        ours=float(len(positional)),
        unit=f"of {len(own)}" + (f", in layers {layers}" if positional else ""),
        is_as_published=bool(positional) if is_encoder else None,
    )


def _syntactic(syntax: SyntaxTable) -> list[PaperComparison]:
    """The best head of each relation against the best fixed offset."""
    rows = []
    for relation, direction, said, published in RELATIONS:
        if (relation, direction) not in syntax.relations:
            continue
        column = syntax.relations.index((relation, direction))
        if np.isnan(syntax.values[:, column]).all():
            continue
        best = int(np.nanargmax(syntax.values[:, column]))
        value, baseline = float(syntax.values[best, column]), float(syntax.baseline[best, column])
        margin = value - baseline
        rows.append(
            PaperComparison(
                what=f"{said}: arcs that the best head finds ({syntax.heads[best].label})",
                published=published,
                where="—" if published == "—" else "section 5.2",
                ours=value,
                low=float(syntax.low[best, column]),
                high=float(syntax.high[best, column]),
                unit=f"against {baseline:.2f} at the best fixed offset",
                is_as_published=None if published == "—" else margin >= SYNTACTIC_MARGIN,
                remark=f"{int(syntax.n_arcs[best, column])} arcs. A head is called syntactic from"
                f" {SYNTACTIC_MARGIN:.2f} above the offset on.",
            )
        )
    return rows


def _kept_rows(found: Found, stack: Stack) -> list[PaperComparison]:
    best = fewest_kept(found.closings, stack, found.whole - TOLERANCE)
    if best is None:
        return []
    is_encoder, share = stack == "encoder", len(best.kept) / best.n_heads
    rows = [
        PaperComparison(
            what=f"share of {stack} heads that gates keep, accuracy within a point",
            published="0.21 (10 of 48) for 0.15 BLEU" if is_encoder else "—",
            where="abstract" if is_encoder else "—",
            ours=share,
            unit=f"({len(best.kept)} of {best.n_heads}; accuracy {best.accuracy:.4f} at λ {best.penalty:g})",
            is_as_published=share <= 2 * _PUBLISHED_KEPT if is_encoder else None,
            remark="At most twice their share counts as theirs." if is_encoder else "",
        )
    ]
    if 0 < len(best.kept) < best.n_heads:
        closed = [head for head in found.roles if head.stack == stack and head not in best.kept]
        counts = (found.n_telling(best.kept), len(best.kept), found.n_telling(closed), len(closed))
        rows.append(telling_row(stack, *counts))
    return rows


def telling_row(
    stack: Stack, n_telling: int, n_kept: int, n_closed_telling: int, n_closed: int
) -> PaperComparison:
    """Whether heads with a telling role are kept more often; few heads may differ so by chance."""
    apart = difference_of([n_telling], n_kept, [n_closed_telling], n_closed)
    return PaperComparison(
        what=f"share with a telling role among {stack} heads kept",
        published="direction only: heads with a role are the last to be pruned",
        where="section 6.2",
        ours=n_telling / n_kept,
        unit=f"({n_telling} of {n_kept}, against {n_closed_telling} of {n_closed} among those closed)",
        is_as_published=has_sign(apart, 1),
        undecided="too few heads to tell",
        remark=f"The shares differ by {apart.value:.2f}, 95 % interval {apart.low:.2f} to {apart.high:.2f}"
        " (Newcombe 1998).",
    )


def _bleu_rows(found: Found) -> list[PaperComparison]:
    """The fewest encoder heads with which translations are about as good."""
    good = [one for one in found.closings if one.bleu >= found.bleu - BLEU_TOLERANCE]
    if not good:
        return []
    best = min(good, key=lambda one: len(one.kept))
    share = len(best.kept) / best.n_heads
    return [
        PaperComparison(
            what=f"share of encoder heads that gates keep, BLEU within {BLEU_TOLERANCE:g}",
            published="0.21 (10 of 48) for 0.15 BLEU",
            where="abstract",
            ours=share,
            unit=f"({len(best.kept)} of {best.n_heads}; BLEU {best.bleu:.1f} of {found.bleu:.1f} at λ"
            f" {best.penalty:g})",
            is_as_published=share <= 2 * _PUBLISHED_KEPT,
            remark="At most twice their share counts as theirs.",
        )
    ]


def _charts(found: Found) -> tuple[Chart, ...]:
    quality, telling = [], []
    for colour, stack in enumerate(found.stacks):
        own = sorted((one for one in found.closings if one.stack == stack), key=lambda one: len(one.kept))
        quality.append(
            Series(
                name=stack,
                xs=np.array([*(len(one.kept) / one.n_heads for one in own), 1.0]),
                ys=np.array([*(one.accuracy for one in own), found.whole]),
                colour=colour,
                has_points=True,
            )
        )
        own.sort(key=lambda one: one.penalty)
        telling.append(
            Series(
                name=stack,
                xs=np.log10([one.penalty for one in own]),
                ys=np.array(
                    [found.n_telling(one.kept) / len(one.kept) if one.kept else math.nan for one in own]
                ),
                colour=colour,
                has_points=True,
            )
        )
    return (
        Chart(
            title="Accuracy against heads kept",
            x_label="share of the stack's heads that learned gates keep",
            y_label="share of tokens predicted correctly",
            series=tuple(quality),
        ),
        Chart(
            title="Heads with a telling role",
            x_label="log10 of the penalty",
            y_label="share of the heads kept",
            series=tuple(telling),
            y_range=(0.0, 1.02),
        ),
    )


def _rows(found: Found) -> Iterator[tuple[Cell, ...]]:
    for head, role in found.roles.items():
        stays = " ".join(f"{one.penalty:g}" for one in found.closings if head in one.kept)
        said = "" if role is None else role.sentence
        yield (head.stack, head.label, found.name(head), stays, said, None, None, None, None, None)
    for one in found.closings:
        numbers = (one.penalty, len(one.kept), one.accuracy, one.loss, one.bleu)
        yield (one.stack, "", "", "", "", *numbers)


def _told(event: CorpusProgress, about: str) -> PartsDone:
    return PartsDone(n_done=event.n_done, n_total=event.n_total, about=about)


class StackSubject:
    """A model of which only one stack's heads are seen, so that only they get gates."""

    def __init__(self, subject: Subject, stack: Stack) -> None:
        self._subject = subject
        self.form: Form = subject.form
        self.sites: tuple[Site, ...] = tuple(site for site in subject.sites if site.stack == stack)

    @property
    def device(self) -> torch.device:
        return self._subject.device

    def studying(self) -> AbstractContextManager[None]:
        """As the whole model."""
        return self._subject.studying()

    def hidden(self, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
        """As the whole model."""
        return self._subject.hidden(batch, probe)

    def logits(self, hidden: Tensor) -> Tensor:
        """As the whole model."""
        return self._subject.logits(hidden)


def _close_gates(
    model: Model,
    stack: Stack,
    penalty: float,
    learning: Sequence[Sample],
    measuring: Sequence[Sample],
    *,
    n_steps: int,
    seed: int = 0,
    has_bleu: bool = False,
) -> Iterator[PartsDone | Closing]:
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
                accuracy=_value_of(model, measuring, off, "accuracy"),
                loss=_value_of(model, measuring, off, "loss"),
                bleu=_value_of(model, measuring, off, "bleu") if has_bleu else math.nan,
            )
        else:
            about = f"{stack}, penalty {penalty:g}: {event.about}"
            yield PartsDone(n_done=event.n_done, n_total=event.n_total, about=about)


def _value_of(model: Model, samples: Sequence[Sample], gates: Gates, name: MetricName) -> float:
    """A metric over some texts with some heads off."""
    return make_metric(name, model, subject_of(model), build_batches(model, samples), samples).of(gates)


def fewest_kept(closings: Sequence[Closing], stack: Stack, least: float) -> Closing | None:
    """Of one stack, the closing that keeps fewest heads with an accuracy of `least` or more."""
    good = [one for one in closings if one.stack == stack and one.accuracy >= least]
    return min(good, key=lambda one: len(one.kept), default=None)
