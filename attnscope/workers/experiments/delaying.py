"""Accuracy by distance: small decoders repeat the token from d positions before.

    symbol    meaning                                                             shape
    d         how far back the token stands that is to be said again              one number
    ids       random tokens; texts are SCORED tokens longer than d                [n_texts, d + SCORED]
    right     share of the tokens with a target that are told, of N_READ texts    one number

Bai et al. 2018 compare recurrent and convolutional networks by such a copy memory; here every model, of about
one size and with one optimiser, is trained anew for each distance: until it is right, or until
PATIENCE readings have not raised its best share by LEAST_GAIN, or for as many steps as are asked at most.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attnscope.nn import ModelConfig, build_transformer
from attnscope.records.experiments import (
    ALL_RIGHT,
    DISTANCES,
    READERS,
    DelayFinding,
    DelayPoint,
    DelayQuestion,
    ExperimentNews,
    Reader,
)
from attnscope.workers.experiments import IGNORED, VOCABULARY, descend, draw_texts, experiment

N_CONVOLUTIONS, DILATION = 4, 2
"""Layers of the convolution, each with its places twice as far apart as the one below."""
SCORED, BATCH, N_READ = 32, 16, 64
READ_EVERY, PATIENCE, LEAST_GAIN = 100, 10, 0.01
_N_LAYERS, _N_HEADS, _N_KERNELS, _ROTARY_BASE = 2, 2, 8, 100.0
_RATE, _N_WARMUP, _MOST_NORM = 3e-3, 50, 1.0
_STEPS_A_PIECE = 4
_READ_SEED = 10_007


@experiment(DelayQuestion)
def compare_readers(question: DelayQuestion) -> Iterator[ExperimentNews]:
    """Train every model for one distance, then for the next; news include the points so far."""
    points: list[DelayPoint] = []
    n_total = len(DISTANCES) * len(READERS) * question.n_steps
    for distance in DISTANCES:
        for reader in READERS:
            n_before = len(points) * question.n_steps
            course = DelayCourse(reader, distance, question)
            for n_done in course.train():
                yield _news(question, points, n_before + n_done, n_total)
            points.append(course.point())
            yield _news(question, points, len(points) * question.n_steps, n_total)


def _news(question: DelayQuestion, points: list[DelayPoint], n_done: int, n_total: int) -> ExperimentNews:
    finding = DelayFinding(question=question, n_read=N_READ * SCORED, points=tuple(points))
    is_done = len(points) == len(DISTANCES) * len(READERS)
    return ExperimentNews(n_done=n_done, n_total=n_total, finding=finding, is_done=is_done)


class Gru(nn.Module):
    """Gated recurrent cells (Cho et al. 2014) that read a text and predict each target."""

    def __init__(self, d_model: int, seed: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, d_model)
        self.cells = nn.GRU(d_model, d_model, _N_LAYERS, batch_first=True)
        self.head = nn.Linear(d_model, VOCABULARY)
        generator = Generator().manual_seed(seed)
        with torch.no_grad():
            for weights in self.parameters():
                weights.uniform_(-(d_model**-0.5), d_model**-0.5, generator=generator)
            self.tokens.weight.normal_(generator=generator)

    def forward(self, ids: Tensor) -> Tensor:
        """The logits at every token, [n_texts, n_tokens, VOCABULARY]."""
        logits: Tensor = self.head(self.cells(self.tokens(ids))[0])
        return logits


def new_reader(reader: Reader, distance: int, question: DelayQuestion) -> nn.Module:
    """An untrained model; all predict a token from those up to it."""
    if reader == "gru":
        return Gru(question.d_model, question.seed)
    shape: dict[str, dict[str, object]] = {
        "attention": {"position": "rotary"},
        "convolution": {
            "mixer": "convolution",
            "kernel_width": question.kernel_width,
            "dilation": DILATION,
            "n_layers": N_CONVOLUTIONS,
            "n_heads": _N_KERNELS,
        },
        "retention": {"mixer": "retention", "position": "rotary"},
        "selective": {"mixer": "selective", "kernel_width": question.kernel_width},
    }
    config = ModelConfig.from_dict(
        {
            "form": "decoder",
            "vocab_size": VOCABULARY,
            "d_model": question.d_model,
            "n_layers": _N_LAYERS,
            "n_heads": _N_HEADS,
            "d_ff": 2 * question.d_model,
            "max_tokens": distance + SCORED,
            "position": "none",
            "rope_base": _ROTARY_BASE,
            **shape[reader],
        }
    )
    return build_transformer(config, question.seed)


class DelayCourse:
    """One model for one distance: `shares` are its evaluations' results, `n_done` its steps."""

    def __init__(self, reader: Reader, distance: int, question: DelayQuestion) -> None:
        self.reader, self.distance, self.question = reader, distance, question
        self.module = new_reader(reader, distance, question)
        self.n_done, self.n_right = 0, 0
        self.shares: list[float] = []
        self._optimizer = torch.optim.Adam(self.module.parameters(), lr=_RATE, betas=(0.9, 0.98), fused=True)
        self._generator = Generator().manual_seed(question.seed)

    def train(self) -> Iterator[int]:
        """Train with Adam at one rate until it stops improving; yields the steps done, every few."""
        while self.n_done < self.question.n_steps and not self.is_over:
            self._step()
            if self.n_done % READ_EVERY == 0 or self.n_done == self.question.n_steps:
                self._read()
            if self.n_done % _STEPS_A_PIECE == 0:
                yield self.n_done

    @property
    def is_over(self) -> bool:
        """Whether everything is right, or the last evaluations brought nothing."""
        return bool(self.shares) and (self.shares[-1] >= ALL_RIGHT or has_settled(self.shares))

    def point(self) -> DelayPoint:
        return DelayPoint(
            reader=self.reader,
            distance=self.distance,
            n_right=self.n_right,
            n_steps=self.n_done,
            n_parameters=sum(p.numel() for p in self.module.parameters()),
        )

    def _step(self) -> None:
        self.n_done += 1
        ids, targets = draw_texts(BATCH, self.distance + SCORED, self.distance, self._generator)
        loss = F.cross_entropy(self.module(ids).flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        descend(self._optimizer, loss, _RATE * min(1.0, self.n_done / _N_WARMUP), most_norm=_MOST_NORM)

    @torch.no_grad()
    def _read(self) -> None:
        """Evaluate on new texts, always the same ones."""
        generator = Generator().manual_seed(_READ_SEED + self.distance)
        ids, targets = draw_texts(N_READ, self.distance + SCORED, self.distance, generator)
        self.module.eval()
        told = self.module(ids).argmax(dim=-1)
        self.module.train()
        self.n_right = int((told == targets).sum())
        self.shares.append(self.n_right / (N_READ * SCORED))


def has_settled(shares: list[float]) -> bool:
    """Whether the last PATIENCE evaluations have not raised the best share by LEAST_GAIN."""
    best, at = 0.0, -1
    for k, share in enumerate(shares):
        if share >= best + LEAST_GAIN:
            best, at = share, k
    return len(shares) - 1 - at >= PATIENCE
