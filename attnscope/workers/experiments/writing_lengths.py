"""Quality by length: small trained models that write rows of tokens backwards or unchanged.

    symbol    meaning                                                        shape
    L         longest row of training; rows of up to 1.5 L are read          one number
    sources   random tokens, then the end                                    [n_rows, n_tokens + 1]
    targets   the same tokens in the order wanted, then the end              [n_rows, n_tokens + 1]

Each step draws rows of one new length, so there is no padding and nothing can be learned by heart. All that a
model without attention knows of a row goes through one vector (Bahdanau et al. 2014, figure 2); `attnscope
study length` asks the same with more letters, longer rows and several seeds.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from attnscope.models.writing.writer import RightTexts, count_right, write_rows
from attnscope.nn import ModelConfig, build_own
from attnscope.nn.own_module import OwnModule
from attnscope.records.experiments import (
    WRITERS,
    ExperimentNews,
    Writer,
    WritingCurve,
    WritingFinding,
    WritingQuestion,
    WritingTask,
)
from attnscope.workers.experiments import descend, experiment

VOCABULARY, BEGIN, END = 16, 16, 17
SHORTEST, FURTHER = 3, 1.5
BATCH, N_ROWS = 32, 100
_RATE, _N_WARMUP, _LAST_SHARE, _MOST_NORM = 6e-3, 30, 0.05, 1.0
_STEPS_A_PIECE = 4
_READ_SEED = 10_007


@experiment(WritingQuestion)
def compare_writers(question: WritingQuestion) -> Iterator[ExperimentNews]:
    """Yield news after every few steps and every length evaluated; the models take turns."""
    courses = [WritingCourse(writer, question) for writer in WRITERS]
    found: dict[Writer, WritingCurve] = {}
    n_total = len(courses) * question.n_steps
    every = steps_a_reading(question.n_steps)
    for first in range(0, question.n_steps, every):
        n_steps = min(every, question.n_steps - first)
        for course in courses:
            for _ in course.train(n_steps):
                yield _news(courses, found, n_total)
            for curve in course.read():
                if curve is not None:
                    found[course.writer] = curve
                yield _news(courses, found, n_total)
    yield _news(courses, found, n_total, is_done=True)


def _news(
    courses: "list[WritingCourse]",
    found: dict[Writer, WritingCurve],
    n_total: int,
    *,
    is_done: bool = False,
) -> ExperimentNews:
    question = courses[0].question
    finding = WritingFinding(
        question=question,
        lengths=read_lengths(question.n_trained),
        n_rows=N_ROWS,
        read_every=steps_a_reading(question.n_steps),
        curves=tuple(found.values()),
    )
    n_done = sum(course.n_done for course in courses)
    return ExperimentNews(n_done=n_done, n_total=n_total, finding=finding, is_done=is_done)


def steps_a_reading(n_steps: int) -> int:
    """Number of steps between two evaluations: some twenty of these in a long course."""
    return max(50, n_steps // 20)


def read_lengths(n_trained: int) -> tuple[int, ...]:
    """The lengths evaluated: the trained ones, and half as many tokens more."""
    return tuple(range(SHORTEST, int(FURTHER * n_trained) + 1))


def new_writer(writer: Writer, question: WritingQuestion) -> OwnModule:
    """An untrained model; all have one layer on either side, and similar sizes."""
    shape: dict[Writer, dict[str, object]] = {
        "none": {"body": "gru", "has_attention": False},
        "additive": {"body": "gru", "score": "additive"},
        "dot": {"body": "gru", "score": "dot", "feeds_context": False},
        "transformer": {"position": "sinusoidal", "n_heads": 4, "d_ff": 2 * question.d_model},
    }
    config = ModelConfig.from_dict(
        {
            "form": "encoder-decoder",
            "vocab_size": VOCABULARY + 2,
            "d_model": question.d_model,
            "n_layers": 1,
            "n_heads": 1,
            "max_tokens": read_lengths(question.n_trained)[-1] + 2,
            "scale_embeddings": True,
            "tie_embeddings": False,
            **shape[writer],
        }
    )
    return build_own(config, question.seed)


def draw_rows(n_rows: int, n_tokens: int, task: WritingTask, generator: Generator) -> tuple[Tensor, Tensor]:
    """Sources and targets of one length, both [n_rows, n_tokens + 1]."""
    ids = torch.randint(VOCABULARY, (n_rows, n_tokens), generator=generator)
    end = ids.new_full((n_rows, 1), END)
    return torch.cat((ids, end), dim=1), torch.cat((ids.flip(1) if task == "reverse" else ids, end), dim=1)


class WritingCourse:
    """One model in training: `n_done` steps, the mean loss before each evaluation."""

    def __init__(self, writer: Writer, question: WritingQuestion) -> None:
        self.writer, self.question = writer, question
        self.module = new_writer(writer, question)
        self.n_done = 0
        self.losses: list[float] = []
        self._optimizer = torch.optim.Adam(self.module.parameters(), lr=_RATE, betas=(0.9, 0.98), fused=True)
        self._generator = Generator().manual_seed(question.seed)

    def train(self, n_steps: int) -> Iterator[None]:
        """Continue training with Adam, its rate falling along the whole course; yields every few steps."""
        total = 0.0
        for step in range(1, n_steps + 1):
            total += self._step()
            if step == n_steps:
                self.losses.append(total / n_steps)
            if step % _STEPS_A_PIECE == 0 or step == n_steps:
                yield

    def read(self) -> Iterator[WritingCurve | None]:
        """Evaluate new rows of every length, always the same ones; the curve comes with the last."""
        found: list[RightTexts] = []
        lengths = read_lengths(self.question.n_trained)
        for n_tokens in lengths:
            generator = Generator().manual_seed(_READ_SEED + n_tokens)
            sources, targets = draw_rows(N_ROWS, n_tokens, self.question.task, generator)
            found.append(count_right(write_rows(self.module, sources, BEGIN, n_tokens + 1), targets))
            yield self._curve(found) if n_tokens == lengths[-1] else None

    def _curve(self, found: list[RightTexts]) -> WritingCurve:
        return WritingCurve(
            writer=self.writer,
            n_parameters=sum(p.numel() for p in self.module.parameters()),
            losses=tuple(self.losses),
            n_exact=tuple(right.n_exact for right in found),
            token_shares=tuple(right.token_share for right in found),
        )

    def _step(self) -> float:
        question = self.question
        self.n_done += 1
        falling = 1.0 - (1.0 - _LAST_SHARE) * self.n_done / question.n_steps
        n_tokens = int(torch.randint(SHORTEST, question.n_trained + 1, (1,), generator=self._generator))
        loss = mean_target_loss(self.module, *draw_rows(BATCH, n_tokens, question.task, self._generator))
        rate = _RATE * min(1.0, self.n_done / _N_WARMUP) * falling
        descend(self._optimizer, loss, rate, most_norm=_MOST_NORM)
        return loss.item()


def mean_target_loss(module: OwnModule, sources: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of the targets' tokens, each predicted after the right ones before it, in nats."""
    given = torch.cat((targets.new_full((len(targets), 1), BEGIN), targets[:, :-1]), dim=1)
    logits = module.logits(module.decode(given, memory=module.encode(sources)))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
