"""What a recipe consists of: its sections, their keys, ranges and defaults."""

from dataclasses import dataclass, field
from typing import Literal

from attnscope.nn.config import ModelConfig
from attnscope.records.models import Form
from attnscope.training.fields import Choice, Real, Value, Whole, Words, key

Objective = Literal["causal", "masked", "translation"]
FORM_OF_OBJECTIVE: dict[str, Form] = {
    "causal": "decoder",
    "masked": "encoder",
    "translation": "encoder-decoder",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerPart:
    """How text becomes tokens; tasks bring their own tokenizer."""

    kind: str = key(Choice(("byte-bpe", "bpe", "wordpiece", "unigram", "words", "characters")), "byte-bpe")
    vocab_size: int = key(Whole(8, 100_000), 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPart:
    """What is learned from: a text file, a file of tab-separated pairs, or a built-in task.

    `repeated_share` is the share of sequences that are random words repeated, which teaches induction.
    `n_examples` is how many different examples of a task are made; `about` says in words where a text
    comes from and under which licence, for the model's card.
    """

    kind: str = key(Choice(("text", "pairs", "task")))
    path: str = key(Words(), "")
    task: str = key(Words(64), "")
    validation_share: float = key(Real(0.0001, 0.9), 0.1)
    repeated_share: float = key(Real(0.0, 1.0), 0.0)
    n_examples: int = key(Whole(2, 10_000_000), 20_000)
    about: str = key(Words(1000), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePart:
    """What is learned; `mask_share` is the share of tokens a masked model has to guess."""

    kind: Objective = key(Choice(("causal", "masked", "translation")))  # noqa: RUF009
    mask_share: float = key(Real(0.01, 0.9), 0.15)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerPart:
    """The optimiser; under the Noam schedule the rate comes from the schedule alone."""

    kind: str = key(Choice(("adamw", "radam")), "adamw")
    learning_rate: float = key(Real(1e-9, 100.0), 1e-3)
    weight_decay: float = key(Real(0.0, 10.0), 0.01)
    beta1: float = key(Real(0.0, 0.9999), 0.9)
    beta2: float = key(Real(0.0, 0.999999), 0.98)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePart:
    """How the rate moves; `factor` scales the Noam rate, `final_share` is where linear and cosine end."""

    kind: str = key(Choice(("noam", "linear", "cosine", "constant")), "cosine")
    warmup_steps: int = key(Whole(0, 10_000_000), 100)
    factor: float = key(Real(1e-6, 1000.0), 1.0)
    final_share: float = key(Real(0.0, 1.0), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPart:
    """How long, how much at once, and how often to look and to save; a `clip_norm` of 0 clips nothing."""

    n_steps: int = key(Whole(1, 100_000_000))
    batch_size: int = key(Whole(1, 65_536), 16)
    accumulate: int = key(Whole(1, 4096), 1)
    clip_norm: float = key(Real(0.0, 1e6), 1.0)
    seed: int = key(Whole(0, 2**31 - 1), 0)
    precision: str = key(Choice(("auto", "float32", "bfloat16")), "auto")
    evaluate_every: int = key(Whole(1, 100_000_000), 250)
    evaluation_batches: int = key(Whole(1, 10_000), 8)
    save_every: int = key(Whole(1, 100_000_000), 1000)
    name: str = key(Words(80), "model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A sentence whose attention is kept at every checkpoint."""

    text: str = key(Words(100_000))
    target: str = key(Words(100_000), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A complete recipe; `model.vocab_size` is a wish until the tokenizer exists."""

    model: ModelConfig
    tokenizer: TokenizerPart = field(default_factory=TokenizerPart)
    data: DataPart
    objective: ObjectivePart
    optimizer: OptimizerPart = field(default_factory=OptimizerPart)
    schedule: SchedulePart = field(default_factory=SchedulePart)
    training: TrainingPart
    task_options: tuple[tuple[str, Value], ...] = ()
    watch: tuple[Watch, ...] = ()
