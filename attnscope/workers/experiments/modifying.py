"""Modifications of a small encoder–decoder, actually trained: Narang et al. 2021 on a toy scale.

    symbol   meaning                                                             shape
    early    loss after a quarter of the steps, nats a token of held-out texts   [n_seeds]
    final    the same after all of them                                          [n_seeds]
    bleu     of greedy translations of N_TRANSLATED held-out sentences, 0…100    [n_seeds]

The task is English to French in the small grammar that comes with the program. A seed draws the first weights
and the batches; all models of a seed read the same batches, and all have the same optimiser.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
import torch

from attnscope.analysis.metrics import bleu_of, count_ngrams
from attnscope.models.writing.writer import write_rows
from attnscope.nn import ModelConfig, build_own, count_parameters
from attnscope.nn.own_module import OwnModule
from attnscope.records.experiments import ExperimentNews, ModifyFinding, ModifyQuestion, ModifyRow
from attnscope.records.modifications import D_FF, Modification, of_group
from attnscope.text.tasks import Example, make_task
from attnscope.training.data import Prepared, prepare
from attnscope.training.objectives import loss_sum
from attnscope.training.recipe import parse_recipe
from attnscope.workers.experiments import experiment

CountBleu = Callable[[Sequence[str], Sequence[str]], float]
"""BLEU of translations against their references."""
N_TRANSLATED = 100
D_MODEL, N_LAYERS, N_HEADS, MOST_TOKENS = 48, 2, 4, 48
BATCH, N_EXAMPLES, N_READ = 32, 8000, 8
_RATE, _WARMUP_SHARE, _LAST_SHARE, _MOST_NORM, _EARLY_SHARE = 6e-3, 0.1, 0.05, 1.0, 0.25
_STEPS_A_PIECE = 4
_TASK = "english-french"
_RECIPE = f"""
[model]
d_model = {D_MODEL}
n_layers = {N_LAYERS}
n_heads = {N_HEADS}
d_ff = {D_FF}
max_tokens = {MOST_TOKENS}
position = "t5"
scale_embeddings = true
n_buckets = 16
max_distance = 32
activation = "relu"

[data]
kind = "task"
task = "{_TASK}"
n_examples = {N_EXAMPLES}

[objective]
kind = "translation"

[training]
n_steps = 1000
batch_size = {BATCH}
evaluation_batches = {N_READ}
"""


@experiment(ModifyQuestion)
def compare_modifications(question: ModifyQuestion) -> Iterator[ExperimentNews]:
    """`try_modifications`, with BLEU of the translations."""
    return try_modifications(question, bleu=_bleu)


def _bleu(written: Sequence[str], right: Sequence[str]) -> float:
    """BLEU of texts against one reference each, without its interval."""
    counts = [count_ngrams(text, reference) for text, reference in zip(written, right, strict=True)]
    return float(bleu_of(np.sum(counts, axis=0)))


def try_modifications(question: ModifyQuestion, *, bleu: CountBleu | None = None) -> Iterator[ExperimentNews]:
    """Train every row of a group with every seed, seed after seed; news include the results so far.

    Without `bleu` the translations are not made, and their numbers are NaN.
    """
    recipe = parse_recipe(_RECIPE)
    data = prepare(recipe)
    wanted = [one for one in of_group(question.group) if not question.only or one.name in question.only]
    rows = [_Row(one, data.fitted(modified(recipe.model, one))) for one in wanted]
    n_total, n_done = len(rows) * question.n_seeds * question.n_steps, 0
    for k in range(question.n_seeds):
        for row in rows:
            for n_steps in train_one(row, data, question, question.seed + k, bleu):
                n_done += n_steps
                finding = ModifyFinding(question=question, rows=tuple(r.told() for r in rows if r.finals))
                yield ExperimentNews(
                    n_done=n_done, n_total=n_total, finding=finding, is_done=n_done == n_total
                )


def modified(model: ModelConfig, one: Modification) -> ModelConfig:
    return replace(model, **dict(one.changes))  # type: ignore[arg-type]


@dataclass(slots=True)
class _Row:
    """A modification in progress: the results of each seed."""

    modification: Modification
    config: ModelConfig
    earlies: list[float] = field(default_factory=list)
    finals: list[float] = field(default_factory=list)
    bleus: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def told(self) -> ModifyRow:
        return ModifyRow(
            name=self.modification.name,
            n_parameters=count_parameters(self.config).total,
            earlies=tuple(self.earlies),
            finals=tuple(self.finals),
            bleus=tuple(self.bleus),
            seconds=sum(self.seconds) / len(self.seconds),
        )


def train_one(
    row: _Row, data: Prepared, question: ModifyQuestion, seed: int, bleu: CountBleu | None
) -> Iterator[int]:
    """Train one model and record its result; yields the steps done since the last time."""
    module = build_own(row.config, seed)
    optimizer = torch.optim.Adam(module.parameters(), lr=_RATE, betas=(0.9, 0.98), fused=True)
    n_steps, n_early, since = question.n_steps, early_step(question), 0
    early, took_s = math.nan, 0.0
    for step in range(1, n_steps + 1):
        began_s = time.process_time()
        for group in optimizer.param_groups:
            group["lr"] = _RATE * warmed_share(step, n_steps)
        descend(module, optimizer, data, seed, step)
        took_s += time.process_time() - began_s
        since += 1
        if step == n_early:
            early = held_out_loss(module, data)
        if step == n_steps:
            row.earlies.append(early)
            row.finals.append(held_out_loss(module, data))
            row.bleus.append(math.nan if bleu is None else translated(module, data, bleu))
            row.seconds.append(took_s)
        if since == _STEPS_A_PIECE or step == n_steps:
            yield since
            since = 0


def early_step(question: ModifyQuestion) -> int:
    """The step after which the early loss is measured."""
    return max(1, round(_EARLY_SHARE * question.n_steps))


def warmed_share(step: int, n_steps: int) -> float:
    """The learning rate of a step as a share of the largest: a warm-up, and a linear decay."""
    n_warmup = max(1, round(_WARMUP_SHARE * n_steps))
    return min(1.0, step / n_warmup) * (1.0 - (1.0 - _LAST_SHARE) * step / n_steps)


def descend(
    module: OwnModule, optimizer: torch.optim.Optimizer, data: Prepared, seed: int, step: int
) -> None:
    """One step on the batch of this seed and step; a step whose loss is not a number changes nothing."""
    batch = data.batches.draw(np.random.default_rng((seed, step)), 0.0)
    module.train()
    loss = loss_sum(module, batch) / len(batch.labels)
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    norm = torch.nn.utils.clip_grad_norm_(module.parameters(), _MOST_NORM)
    if bool(torch.isfinite(norm)):
        optimizer.step()


@torch.no_grad()
def held_out_loss(module: OwnModule, data: Prepared) -> float:
    """Nats a token over the held-out batches."""
    module.eval()
    batches = data.batches.evaluation()
    total = sum(loss_sum(module, batch).item() for batch in batches)
    return total / sum(len(batch.labels) for batch in batches)


def translated(module: OwnModule, data: Prepared, bleu: CountBleu) -> float:
    """BLEU of greedy translations of held-out sentences."""
    tokenizer = data.tokenizer
    examples = sorted(held_out_examples(), key=lambda one: len(one.source.split()))
    written: list[str] = []
    for n_words, several in groupby(examples, key=lambda one: len(one.source.split())):
        ids = tokenizer.encode_lines(one.source for one in several)
        n_written = min(2 * n_words + 4, MOST_TOKENS - 2)
        sources = torch.tensor([[tokenizer.begin_id, *row, tokenizer.end_id] for row in ids])
        for row in write_rows(module.eval(), sources, tokenizer.begin_id, n_written).tolist():
            end = row.index(tokenizer.end_id) if tokenizer.end_id in row else len(row)
            written.append(tokenizer.decode(row[:end]))
    right = tokenizer.encode_lines(one.target or "" for one in examples)
    return bleu(written, [tokenizer.decode(ids) for ids in right])


def held_out_examples() -> list[Example]:
    return make_task(_TASK).examples(N_TRANSLATED, seed=0, held_out=True)
