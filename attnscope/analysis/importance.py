"""The importance of each head for the loss, and a metric as heads are removed.

| symbol | meaning                                            | shape              |
|--------|----------------------------------------------------|--------------------|
| g_h    | gate of head h, multiplying its output; 1 normally | [batch, n_heads]   |
| L(x)   | loss of text x: mean cross-entropy of its tokens   | [batch]            |
| scores | one number for each text and head                  | [n_texts, n_heads] |

- gradient: E_x |∂L(x)/∂g_h| at the present gates (Michel, Levy and Neubig 2019, equation 2): the absolute
  value is taken of each text's own gradient, before the mean. It equals E_x |o_h · ∂L/∂o_h| with o_h the
  head's output. Optionally each site is divided by its Euclidean norm (section 4.1 there, after Molchanov
  et al. 2017).
- leave-one-out: E_x [L(x) without head h − L(x)].
- random: uniform numbers, the control.

Heads follow the order of the model's sites. Looking at a model changes neither its weights nor their
gradients.

Learning which heads to keep: hard concrete gates under an L0 penalty, the model's weights fixed.

The gates z of each head and text and their distribution are those of `nn/spans.py`, with one number
log_alpha learned for each head. What is minimised is E[L] + λ · Σ_h P(z_h ≠ 0) (Voita et al. 2019,
section 6.1). There the weights are trained on along with the gates; here they stay as they are, so that
the gates speak about the model that was opened.

How alike heads attend: Jensen–Shannon divergences over many texts.

| symbol | meaning                                              | shape                       |
|--------|------------------------------------------------------|-----------------------------|
| a      | weights, 0 where the mask forbids                    | [n_heads, n_queries, n_keys]|
| JS     | H((a + a')/2) − (H(a) + H(a'))/2, nats, of one row   | [n_heads, n_heads]          |

Clark et al. 2019, section 6: Σ_i JS(a_h[i] ‖ a_h'[i]) over the tokens of a corpus. Heads of one stack are
compared with each other; those of another read other tokens.

What becomes of a metric as heads are removed, least important first.

Iterative pruning after Michel et al. (2019, section 4.2): a tenth of the heads goes at a time. With
`is_rescored` the heads that are left are scored again after each removal, so that a head whose twin has
gone can become important; otherwise the first scores decide all. Heads are removed by gates of 0, which
equals removing their weights; the model is left as it was.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.batches import Sample, build_batches, count_texts, slices_of, text_losses
from attnscope.analysis.bootstrap import RatioBootstrap, interval_of_sums
from attnscope.analysis.measures import row_entropy
from attnscope.analysis.metrics import Counts, Metric, make_metric
from attnscope.analysis.model_adapter import (
    Subject,
    TensorGates,
    TokenBatch,
    gate_probe,
    gate_tensors,
    subject_of,
)
from attnscope.counting import listed, there_are
from attnscope.errors import UserError, of_wrong_kind
from attnscope.models.model import Model
from attnscope.nn import START_LOG_ALPHA, exact, open_probability, sample_gates, settled_gates
from attnscope.records.importance import (
    DEFAULT_RANKINGS,
    LEARNING_STEPS,
    RANKINGS,
    CurvePoint,
    CurveSoFar,
    HeadScore,
    Importance,
    LearnedGates,
    MetricName,
    PartsDone,
    PruningCurve,
    Ranking,
)
from attnscope.records.measures import HeadPairs
from attnscope.records.sites import NO_GATES, Gates, HeadRef, SiteKey, Stack, require_heads
from attnscope.trace import Trace, weights_to_sum

Scores = NDArray[np.float64]


def importance(
    model: Model,
    samples: Sequence[Sample],
    ranking: Ranking = "gradient",
    *,
    gates: Gates = NO_GATES,
    is_normalised: bool = False,
    batch_size: int = 16,
    seed: int = 0,
) -> Importance:
    """The importance of every head over some `samples`: texts, or pairs for a translation model.

    `ranking` is gradient (Michel et al. 2019, in nats: the mean absolute derivative of the loss by the head's
    gate), leave-one-out (the loss in nats that the head's removal costs) or random, from `seed`.
    `is_normalised` divides the scores of each site by their Euclidean norm; `batch_size` texts are read at
    once.
    Raises UserError for `learned`, which `learn_gates` computes, and for texts with nothing to predict.
    """
    if not isinstance(model, Model):
        raise of_wrong_kind(model, "what to prune", "a model", "Open one: attnscope.load(name).")
    subject, batches = subject_of(model), build_batches(model, samples, batch_size)
    if ranking in RANKINGS and RANKINGS[ranking].source == "learned":
        raise _unknown(ranking)
    how = ScoringChoices(gates=gates, is_normalised=is_normalised, seed=seed)
    events = measure_importance(subject, batches, ranking, how)
    return next(event for event in events if isinstance(event, Importance))


def _unknown(ranking: str) -> UserError:
    known = [name for name, one in RANKINGS.items() if one.source != "learned"]
    return UserError(
        f"There is no ranking '{ranking}'.",
        expected=listed(known, "or"),
        action="Learned gates are made by learn_gates.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringChoices:
    """How heads are scored: with which gates, and what else a ranking reads; `penalty` is in nats a head."""

    gates: Gates = NO_GATES
    is_normalised: bool = False
    seed: int = 0
    penalty: float = 0.02
    n_steps: int = LEARNING_STEPS


PLAINLY = ScoringChoices()
Ranked = Iterator[PartsDone | LearnedGates | Importance]


def measure_importance(
    subject: Subject,
    batches: Sequence[TokenBatch],
    ranking: Ranking = "gradient",
    how: ScoringChoices = PLAINLY,
) -> Ranked:
    """Progress after each pass, gates that were learned, then the importance; stop iterating to cancel."""
    require_heads(subject.sites)
    if ranking not in RANKED_BY:
        raise _unknown(ranking)
    yield from RANKED_BY[ranking](subject, batches, ranking, how)


def _measured(
    subject: Subject,
    batches: Sequence[TokenBatch],
    ranking: Ranking,
    how: ScoringChoices,
    *,
    parts_of: "PartsOf",
) -> Ranked:
    """The means over texts of what is measured on each; `parts_of` gives None after a pass without any."""
    heads = heads_of(subject)
    n_total = RANKINGS[ranking].n_passes(len(batches), len(heads))
    scores: list[Scores] = []
    for n_done, part in enumerate(parts_of(subject, batches, how.gates), start=1):
        if part is not None:
            scores.append(part)
        yield PartsDone(n_done=n_done, n_total=n_total, about=ranking)
    per_text, n_texts = np.concatenate(scores), count_texts(batches)
    yield summarise(per_text, heads, ranking, n_texts=n_texts, is_normalised=how.is_normalised)


def _by_learning(
    subject: Subject, batches: Sequence[TokenBatch], ranking: Ranking, how: ScoringChoices
) -> Ranked:
    """Rank heads by their learned probability of staying open."""
    for event in learn_gates(subject, batches, penalty=how.penalty, n_steps=how.n_steps, seed=how.seed):
        yield event
        if isinstance(event, LearnedGates):
            yield _bare(ranking, event.open_probability, batches)


def _at_random(
    subject: Subject, batches: Sequence[TokenBatch], ranking: Ranking, how: ScoringChoices
) -> Ranked:
    """Uniform numbers from 0 to 1: the control."""
    heads = heads_of(subject)
    yield _bare(ranking, zip(heads, np.random.default_rng(how.seed).random(len(heads)), strict=True), batches)


def _bare(
    ranking: Ranking, values: Iterable[tuple[HeadRef, float]], batches: Sequence[TokenBatch]
) -> Importance:
    """Scores without intervals."""
    scores = tuple(HeadScore(head=head, value=float(value)) for head, value in values)
    return Importance(ranking=ranking, scores=scores, n_texts=count_texts(batches))


def summarise(
    per_text: Scores, heads: Sequence[HeadRef], ranking: Ranking, *, n_texts: int, is_normalised: bool = False
) -> Importance:
    """The mean score of each head with its interval, from scores [n_texts, n_heads]."""
    bootstrap = RatioBootstrap(len(heads))
    bootstrap.add_means(range(len(per_text)), per_text.astype(np.float32))
    found = bootstrap.intervals((RANKINGS[ranking].least, np.inf))
    means = per_text.mean(axis=0)
    scale = _site_norms(means, heads) if is_normalised else np.ones(len(heads))
    columns = zip(heads, means / scale, found.low / scale, found.high / scale, strict=True)
    return Importance(
        ranking=ranking,
        scores=tuple(
            HeadScore(head=head, value=float(value), low=float(low), high=float(high))
            for head, value, low, high in columns
        ),
        n_texts=n_texts,
        is_normalised=is_normalised,
    )


def gradient_scores(subject: Subject, batch: TokenBatch, gates: Gates = NO_GATES) -> Tensor:
    """Gradients ∂L(x)/∂g_h of each text of a batch, signed: [batch, n_heads of all sites].

    Each text has gates of its own, and texts do not meet in evaluation mode, so one backward pass gives
    the gradient of each text apart.
    """
    with subject.studying(), torch.enable_grad():
        values = gate_tensors(subject, gates)
        own = {key: gate.expand(batch.n_texts, -1).clone().requires_grad_() for key, gate in values.items()}
        losses = text_losses(subject, batch, TensorGates(own))
        gradients = torch.autograd.grad(losses.sum(), list(own.values()), allow_unused=True)
    parts = [
        torch.zeros_like(gate) if gradient is None else gradient
        for gate, gradient in zip(own.values(), gradients, strict=True)
    ]
    return torch.cat(parts, dim=1).detach()


def heads_of(subject: Subject) -> tuple[HeadRef, ...]:
    """Every head of the model, site by site."""
    return tuple(head for site in subject.sites for head in site.heads)


def _gradient_parts(subject: Subject, batches: Sequence[TokenBatch], gates: Gates) -> Iterator[Scores]:
    for batch in batches:
        yield gradient_scores(subject, batch, gates).abs().cpu().double().numpy()


def _leave_one_out_parts(
    subject: Subject, batches: Sequence[TokenBatch], gates: Gates
) -> Iterator[Scores | None]:
    """The increase of each text's loss; None after every pass but a batch's last."""
    heads = heads_of(subject)
    for batch in batches:
        base = _losses(subject, batch, gates)
        yield None
        rises = np.zeros((batch.n_texts, len(heads)))
        for index, head in enumerate(heads):
            if gates.value(head) != 0.0:
                rises[:, index] = _losses(subject, batch, gates.with_value(head, 0.0)) - base
            yield None if index + 1 < len(heads) else rises


PartsOf = Callable[[Subject, Sequence[TokenBatch], Gates], Iterator[Scores | None]]
RANKED_BY: dict[Ranking, Callable[[Subject, Sequence[TokenBatch], Ranking, ScoringChoices], Ranked]] = {
    "gradient": partial(_measured, parts_of=_gradient_parts),
    "leave-one-out": partial(_measured, parts_of=_leave_one_out_parts),
    "learned": _by_learning,
    "random": _at_random,
}
"""How each ranking is computed."""


def _losses(subject: Subject, batch: TokenBatch, gates: Gates) -> NDArray[np.float64]:
    with subject.studying():
        losses = text_losses(subject, batch, gate_probe(subject, gates))
    return losses.cpu().double().numpy()


def _site_norms(means: NDArray[np.float64], heads: Sequence[HeadRef]) -> NDArray[np.float64]:
    squares: dict[SiteKey, float] = {}
    for head, value in zip(heads, means, strict=True):
        squares[head.site_key] = squares.get(head.site_key, 0.0) + float(value) ** 2
    norms = np.sqrt([squares[head.site_key] for head in heads])
    return np.where(norms > 0, norms, 1.0)


def learn_gates(
    subject: Subject,
    batches: Sequence[TokenBatch],
    *,
    penalty: float = 0.02,
    n_steps: int = LEARNING_STEPS,
    learning_rate: float = 0.1,
    seed: int = 0,
) -> Iterator[PartsDone | LearnedGates]:
    """Yield progress after each step, then the gates; the batches are repeated as needed.

    `penalty` is λ, in nats per head. A larger one closes more heads. The model is left as it was.
    """
    heads = heads_of(subject)
    log_alpha = torch.full((len(heads),), START_LOG_ALPHA, device=subject.device, requires_grad=True)
    optimizer = torch.optim.Adam([log_alpha], lr=learning_rate)
    noise = torch.Generator(device="cpu").manual_seed(seed)
    for step in range(n_steps):
        batch = batches[step % len(batches)]
        u = torch.rand(batch.n_texts, len(heads), generator=noise).clamp_(1e-6, 1 - 1e-6)
        with subject.studying(), torch.enable_grad():
            gates = split_by_site(subject, sample_gates(log_alpha, u.to(subject.device)))
            loss = text_losses(subject, batch, TensorGates(gates)).mean()
            n_open = open_probability(log_alpha).sum()
            (gradient,) = torch.autograd.grad(loss + penalty * n_open, [log_alpha])
        log_alpha.grad = gradient
        optimizer.step()
        told, count = torch.stack([loss.detach(), n_open.detach()]).tolist()
        about = f"loss {told:.3f}, {count:.1f} heads open"
        yield PartsDone(n_done=step + 1, n_total=n_steps, about=about)
    yield _learned(heads, log_alpha.detach().cpu(), penalty=penalty, n_steps=n_steps)


def split_by_site(subject: Subject, gates: Tensor) -> dict[SiteKey, Tensor]:
    """Split gates [..., n_heads of all sites] by site."""
    parts = torch.split(gates, [site.n_heads for site in subject.sites], dim=-1)
    return {site.key: part for site, part in zip(subject.sites, parts, strict=True)}


def _learned(heads: Sequence[HeadRef], log_alpha: Tensor, *, penalty: float, n_steps: int) -> LearnedGates:
    values, chances = settled_gates(log_alpha).tolist(), open_probability(log_alpha).tolist()
    return LearnedGates(
        gates=Gates.of(zip(heads, values, strict=True)),
        open_probability=tuple(zip(heads, chances, strict=True)),
        penalty=penalty,
        n_steps=n_steps,
    )


_BLOCK_CELLS = 4_000_000


class HeadDivergences:
    """Sums of Jensen–Shannon divergences between the heads of one stack, text by text."""

    def __init__(self, heads: Sequence[HeadRef]) -> None:
        self.heads = tuple(heads)
        self.n_queries = self.n_texts = 0
        self.total = np.zeros((len(self.heads), len(self.heads)))

    def add(self, trace: Trace, stack: Stack) -> None:
        weights = [weights_to_sum(trace.records[site.key]) for site in trace.sites if site.stack == stack]
        self.add_weights(torch.cat(weights))

    def add_weights(self, weights: Tensor) -> None:
        """Add weights [n_heads, n_queries, n_keys]. NaN or 0 is forbidden; blind rows do not count."""
        a = weights.nan_to_num(nan=0.0)
        seeing = (a > 0).any(dim=-1).all(dim=0)
        a = a[:, seeing]
        self.total += divergence_sums(a).cpu().numpy()
        self.n_queries += int(seeing.sum())
        self.n_texts += 1

    def mean(self) -> NDArray[np.float64]:
        """The mean divergence of each pair of heads, nats: 0 for heads that attend alike, at most ln 2."""
        return self.total / max(1, self.n_queries)

    def pairs(self, stack: Stack) -> HeadPairs:
        """Sums so far for the heads of one stack; raises UserError if there are none."""
        if not self.n_queries:
            raise UserError(
                "There is no query that sees a key in every head: nothing tells how alike they attend.",
                expected="a text whose tokens see others",
                action="Choose other texts, or take the mask off.",
            )
        return HeadPairs(
            stack=stack,
            heads=self.heads,
            divergences=self.mean(),
            n_queries=self.n_queries,
            n_texts=self.n_texts,
        )


def divergence_sums(a: Tensor) -> Tensor:
    """Σ_i JS(a_h[i] ‖ a_h'[i]) of every pair of heads, float64 [n_heads, n_heads]; a [n_heads, n, keys]."""
    n_heads, n_queries, n_keys = a.shape
    total = torch.zeros(n_heads, n_heads, dtype=torch.float64)
    for rows in slices_of(n_queries, max(1, _BLOCK_CELLS // max(1, n_heads * n_keys))):
        part = a[:, rows]
        entropy = row_entropy(part)  # [n_heads, rows]
        for h in range(n_heads - 1):
            mixed = row_entropy((part[h] + part[h + 1 :]) / 2)
            js = (mixed - (entropy[h] + entropy[h + 1 :]) / 2).clamp(min=0.0)
            total[h, h + 1 :] += exact(js).sum(dim=-1).cpu()
    return total + total.T


def head_pairs(
    model: Model, samples: Sequence[Sample], stack: Stack | None = None
) -> Iterator[PartsDone | HeadPairs]:
    """Yield progress after each text, then how alike the heads of a stack (None: the first) attend.

    Raises UserError for a stack with fewer than two heads.
    """
    stack = stack or model.sites[0].stack
    heads = [head for site in model.sites if site.stack == stack for head in site.heads]
    if len(heads) < 2:
        raise UserError(
            f"{there_are(len(heads), 'head')} in the stack '{stack}'.",
            expected="at least two to compare",
            action="Choose another stack or model.",
        )
    sums = HeadDivergences(heads)
    for n_done, trace in enumerate(_traces(model, samples), start=1):
        sums.add(trace, stack)
        yield PartsDone(n_done=n_done, n_total=len(samples), about="comparing heads")
    yield sums.pairs(stack)


def _traces(model: Model, samples: Iterable[Sample]) -> Iterator[Trace]:
    for sample in samples:
        if isinstance(sample, str):
            yield model.trace(sample)
        elif isinstance(sample, tuple):
            yield model.trace(*sample)
        else:
            yield model.trace(sample.source, sample.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveChoices:
    """The metric, the share of heads removed at a time, and how heads are scored.

    They are scored again after each removal (`is_rescored`), on `scoring_samples`, or the same texts where
    that is None; with `is_normalised` the scores of a site have the Euclidean norm 1.
    """

    metric: MetricName = "loss"
    step_share: float = 0.1
    is_rescored: bool = True
    is_normalised: bool = False
    scoring_samples: Sequence[Sample] | None = None
    batch_size: int = 16
    seed: int = 0


AS_USUAL = CurveChoices()


def pruning_curves(
    model: Model,
    samples: Sequence[Sample],
    rankings: Sequence[Ranking] = DEFAULT_RANKINGS,
    choices: CurveChoices = AS_USUAL,
) -> Iterator[PartsDone | Importance | CurveSoFar | PruningCurve]:
    """Yield progress, each ranking's first scores, its curve as it grows and when complete; stop iterating to
    cancel.

    The first scores are those with every head on. Raises UserError for an impossible share or a metric that
    does not apply.
    """
    if not 0.0 < choices.step_share <= 1.0:
        raise UserError(
            f"A share of {choices.step_share} of the heads is removed at a time.",
            expected="above 0, at most 1",
            action="A tenth (0.1) is usual.",
        )
    subject, batches = subject_of(model), build_batches(model, samples, choices.batch_size)
    scoring = batches
    if choices.scoring_samples is not None:
        scoring = build_batches(model, choices.scoring_samples, choices.batch_size)
    measure = make_metric(choices.metric, model, subject, batches, samples)
    parts: list[Counts] = []
    for part in measure.count(NO_GATES):
        parts.append(part)
        yield PartsDone(n_done=0, n_total=1, about="every head on")
    untouched = np.concatenate(parts)
    for ranking in rankings:
        order = _Order(subject, scoring, ranking, choices)
        curve = PruningCurve(
            ranking=ranking,
            metric=choices.metric,
            points=(_point(0, NO_GATES, untouched, measure),),
            n_heads=len(order.heads),
            n_texts=len(untouched),
            is_rescored=order.is_rescored,
            seed=choices.seed,
            is_per_text=bool(model.info.labels),
        )
        yield CurveSoFar(curve=curve)
        for event in _removals(order, measure, choices.step_share):
            if isinstance(event, CurvePoint):
                curve = replace(curve, points=(*curve.points, event))
                yield CurveSoFar(curve=curve)
            else:
                yield event
        yield curve


def pruning_curve(
    model: Model, samples: Sequence[Sample], ranking: Ranking = "gradient", **choices: object
) -> PruningCurve:
    """One complete curve: a metric on `samples` as heads are removed, least important by `ranking` first.

    The choices: `metric` (loss, accuracy, bleu …; loss), `step_share` of the heads removed at a time
    (0.1), `is_rescored` after each removal (True), `is_normalised` scores of each layer (False),
    `scoring_samples` to score the heads on (the same texts), `batch_size` (16), and `seed` (0).
    Raises UserError for an impossible share or a metric that does not apply.
    """
    events = pruning_curves(model, samples, (ranking,), CurveChoices(**choices))  # type: ignore[arg-type]
    return next(event for event in events if isinstance(event, PruningCurve))


def removal_steps(n_heads: int, step_share: float) -> list[int]:
    """Numbers of removed heads along a curve: 0, one step, two steps … every head."""
    step = max(1, round(n_heads * step_share))
    return [*range(0, n_heads, step), n_heads]


class _Order:
    """Chooses the next heads; scores them again where that is wanted and useful."""

    def __init__(
        self, subject: Subject, batches: Sequence[TokenBatch], ranking: Ranking, choices: CurveChoices
    ) -> None:
        self.heads = heads_of(subject)
        self.ranking = ranking
        # Random numbers and learned gates stay what they are; only measured scores change.
        is_measured = ranking in RANKINGS and RANKINGS[ranking].source == "measured"
        self.is_rescored = choices.is_rescored and is_measured
        self._subject, self._batches = subject, batches
        self._how = ScoringChoices(is_normalised=choices.is_normalised, seed=choices.seed)
        self._order: tuple[HeadRef, ...] = ()

    def score(self, gates: Gates) -> Iterator[PartsDone | Importance]:
        """Score the heads with the current gates, if needed; the first scores are reported."""
        is_first = not self._order
        if not is_first and not self.is_rescored:
            return
        how = replace(self._how, gates=gates)
        for event in measure_importance(self._subject, self._batches, self.ranking, how):
            if isinstance(event, PartsDone):
                yield event
            elif isinstance(event, Importance):
                self._order = event.order
                if is_first:
                    yield event

    def next(self, removed: Gates, n: int) -> tuple[HeadRef, ...]:
        """The `n` least important heads still on."""
        gone = set(removed.off())
        return tuple(head for head in self._order if head not in gone)[:n]


def _removals(
    order: _Order, measure: Metric, step_share: float
) -> Iterator[PartsDone | Importance | CurvePoint]:
    gates = NO_GATES
    steps = removal_steps(len(order.heads), step_share)[1:]
    for index, n_removed in enumerate(steps):
        for event in order.score(gates):
            is_score = isinstance(event, Importance)
            scoring = PartsDone(n_done=index, n_total=len(steps), about=f"{order.ranking}: scoring heads")
            yield event if is_score else scoring
        going = order.next(gates, n_removed - len(gates.off()))
        gates = Gates.of({**dict(gates.values), **dict.fromkeys(going, 0.0)})
        about = f"{order.ranking}: {n_removed} of {len(order.heads)} heads off"
        parts: list[Counts] = []
        for part in measure.count(gates):
            parts.append(part)
            yield PartsDone(n_done=index, n_total=len(steps), about=about)
        yield _point(n_removed, gates, np.concatenate(parts), measure)
        yield PartsDone(n_done=index + 1, n_total=len(steps), about=about)


def _point(n_removed: int, gates: Gates, counts: Counts, measure: Metric) -> CurvePoint:
    low, high = interval_of_sums(counts, measure.value, limits=measure.limits)
    return CurvePoint(
        n_removed=n_removed,
        gates=gates,
        value=float(measure.value(counts.sum(axis=0))),
        low=low,
        high=high,
    )
