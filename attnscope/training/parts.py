"""The parts of a recipe: its sections, their keys, ranges and defaults.

Recipes as older versions wrote them into their run folders, made into ones that can be read today.

Until version 0.3 a recipe could set choices of Transformers for a recurrent body, which did nothing. A new
recipe that does is refused; one of a run that has begun is read without them, so that the run can go on.
A path that a task did not read is left out likewise.
Before version 0.8 the random blocks of BigBird were linked both ways, and a share of a text's lines was held
out: runs that began so go on so.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from attnscope.codec import AllowedNames, At, AtMost, Between, Codec, Fault, keys_of
from attnscope.errors import RecipeError, meant, shown
from attnscope.nn import Guide, ModelConfig, ignored_choices
from attnscope.nn.config_checks import OF_TRANSFORMERS
from attnscope.outside import parse_toml
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.schemes.optimizers import OPTIMIZERS
from attnscope.schemes.tokenizers import KINDS

Value = str | int | float | bool
Objective = Annotated[str, AllowedNames(OBJECTIVES)]
DATA_KINDS = tuple(dict.fromkeys((*(kind for one in OBJECTIVES.values() for kind in one.data), "task")))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerPart:
    """How text becomes tokens; tasks bring their own tokenizer."""

    kind: Annotated[str, AllowedNames(KINDS)] = "byte-bpe"
    vocab_size: Annotated[int, Between(8, 100_000)] = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPart:
    """The training data: a text file, one of tab-separated pairs, of labelled texts or of labelled words, or
    a built-in task.

    `validation_share` of a text is held out, its end: of its characters, in whole lines, as other programs
    count it, or of its lines; of pairs that share of the sources, or with `crc32` those whose checksum
    divides by 1 / `validation_share`, which can be told of one sentence alone. `repeated_share` is the
    share of sequences that are random words repeated; that teaches induction. In `renamed_share` of the
    texts, which blank lines separate, names are exchanged for made-up ones; that teaches to copy them. Of
    pairs that share more are read, with other names and numbers in both texts.
    `n_examples` is how many different examples of a task are made; `about` says in words where a text
    comes from and under which licence, for the model's card. With `similar_lengths` the examples of a batch
    are about equally long, so that little is padding; each is still as likely as any other. Of pairs,
    `careless_share` more are read: as many of the sources once more as they are typed in haste, without the
    capital they begin with and the mark they end with, half of them without apostrophes; `joined_share` more
    are each made of two, in a row or by a word of `joined_by` and its translation, "and/et, but/mais" for
    instance; that teaches sentences of two clauses. Of pairs into French `exchanged_share` more are read in
    which a rare noun and its translation stand in the place of others of the same gender and number; that
    teaches rare nouns. `column` is the one of a CoNLL-U file that has the labels.
    """

    kind: Annotated[str, AllowedNames(DATA_KINDS)]
    path: Annotated[str, AtMost(4096)] = ""
    task: Annotated[str, AtMost(64)] = ""
    validation_share: Annotated[float, Between(0.0001, 0.9)] = 0.1
    held_out_by: Literal["characters", "lines", "crc32"] = "characters"
    repeated_share: Annotated[float, Between(0.0, 1.0)] = 0.0
    renamed_share: Annotated[float, Between(0.0, 1.0)] = 0.0
    n_examples: Annotated[int, Between(2, 10_000_000)] = 20_000
    similar_lengths: bool = False
    careless_share: Annotated[float, Between(0.0, 1.0)] = 0.0
    joined_share: Annotated[float, Between(0.0, 1.0)] = 0.0
    joined_by: Annotated[str, AtMost(400)] = ""
    exchanged_share: Annotated[float, Between(0.0, 1.0)] = 0.0
    column: Literal["upos", "xpos", "deprel"] = "upos"
    about: Annotated[str, AtMost(1000)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePart:
    """The objective; `mask_share` is the share of tokens a masked model has to guess, of words if
    `whole_words` hides all pieces of a word together.

    With `next_sentence` a masked model also tells whether a second stretch of text follows the first.
    `corrupted_share` of the tokens, in spans of `mean_span` on average, are what span corruption hides.

    `label_smoothing` is the share of each label given to all pieces alike, in training only: reported
    held-out losses are without it. `guided_head`, L1H0 for instance, is a head of the cross-attention that
    learns where a statistical aligner finds the source of each target token; it counts `guided_share`.
    """

    kind: Objective
    mask_share: Annotated[float, Between(0.01, 0.9)] = 0.15
    whole_words: bool = False
    next_sentence: bool = False
    corrupted_share: Annotated[float, Between(0.01, 0.9)] = 0.15
    mean_span: Annotated[float, Between(1.0, 100.0)] = 3.0
    label_smoothing: Annotated[float, Between(0.0, 0.9)] = 0.0
    guided_head: Annotated[str, AtMost(16)] = ""
    guided_share: Annotated[float, Between(0.0001, 100.0)] = 0.05

    @property
    def guide(self) -> Guide | None:
        """The guided head, if there is one."""
        return Guide.named(self.guided_head, self.guided_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerPart:
    """The optimiser; under the Noam schedule the rate comes from the schedule alone.

    What each kind reads of the other keys it says itself (`schemes/optimizers`).
    """

    kind: Annotated[str, AllowedNames(OPTIMIZERS)] = "adamw"
    learning_rate: Annotated[float, Between(1e-9, 100.0)] = 1e-3
    weight_decay: Annotated[float, Between(0.0, 10.0)] = 0.01
    beta1: Annotated[float, Between(0.0, 0.9999)] = 0.9
    beta2: Annotated[float, Between(0.0, 0.999999)] = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePart:
    """The learning rate; `factor` scales the Noam rate, `final_share` ends linear and cosine.

    A trapezoid stays at the full rate and falls straight to `final_share` over the last `decay_share` of the
    steps (Hägele et al. 2024): until then it is the same for a run of any length.

    Over the first `batch_warmup_steps` a batch grows from `batch_start` texts to all of them (Brown et al.
    2020, appendix B), over the first `length_warmup_steps` a text from at most `length_start` tokens to all
    that the model reads: "linear" (Li et al. 2022), or "jump", short until then and long from then on
    (Devlin et al. 2018, appendix A.2). Running text is cut to the length; of whole examples those that are
    no longer are drawn.
    """

    kind: Literal["noam", "linear", "cosine", "trapezoid", "constant"] = "cosine"
    warmup_steps: Annotated[int, Between(0, 10_000_000)] = 100
    factor: Annotated[float, Between(1e-6, 1000.0)] = 1.0
    final_share: Annotated[float, Between(0.0, 1.0)] = 0.0
    decay_share: Annotated[float, Between(0.001, 1.0)] = 0.2
    batch_warmup_steps: Annotated[int, Between(0, 10_000_000)] = 0
    batch_start: Annotated[int, Between(1, 65_536)] = 1
    length_warmup_steps: Annotated[int, Between(0, 10_000_000)] = 0
    length_start: Annotated[int, Between(1, 1_048_576)] = 8
    length_rise: Literal["linear", "jump"] = "linear"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPart:
    """Length and batches of training, intervals of evaluation and saving; `clip_norm` 0: no clipping.

    With `checkpointing` what a block computed is computed again for its gradients and not kept, which saves
    memory for time. `inspect_every` steps the sizes of updates and gradients are noted (0: never).
    `sharded` spreads the weights over the processes that torchrun starts,
    for models that fit into none of them; `tensorboard` mirrors the curves into event files.
    """

    n_steps: Annotated[int, Between(1, 100_000_000)]
    batch_size: Annotated[int, Between(1, 65_536)] = 16
    accumulate: Annotated[int, Between(1, 4096)] = 1
    clip_norm: Annotated[float, Between(0.0, 1e6)] = 1.0
    seed: Annotated[int, Between(0, 2**31 - 1)] = 0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    checkpointing: bool = False
    compile: Literal["auto", "on", "off"] = "auto"
    inspect_every: Annotated[int, Between(0, 100_000_000)] = 0
    evaluate_every: Annotated[int, Between(1, 100_000_000)] = 250
    evaluation_batches: Annotated[int, Between(1, 10_000)] = 8
    save_every: Annotated[int, Between(1, 100_000_000)] = 1000
    sharded: bool = False
    tensorboard: bool = False
    name: Annotated[str, AtMost(80)] = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPart:
    """A trained model to start from; none while `source` (the key `from`) is empty.

    The top `reinit_layers` layers of each stack begin anew (Zhang et al. 2020). Each layer further from the
    top learns `layer_decay` times as fast as the one above it. With a `lora_rank` only low-rank changes of
    the attention's matrices are learned (Hu et al. 2021), scaled by `lora_alpha` / `lora_rank`. With
    `prompt_tokens` so many memory tokens are put in front of each text, and they alone are learned: prompt
    tuning (Lester et al. 2021).
    """

    source: Annotated[str, AtMost(4096), At("from")] = ""
    reinit_layers: Annotated[int, Between(0, 1024)] = 0
    layer_decay: Annotated[float, Between(0.01, 1.0)] = 1.0
    lora_rank: Annotated[int, Between(0, 4096)] = 0
    prompt_tokens: Annotated[int, Between(0, 1_024)] = 0
    lora_alpha: Annotated[float, Between(0.001, 10_000.0)] = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatesPart:
    """Gates of heads learned together with the weights (Voita et al. 2019); off at a penalty of 0.

    `l0_penalty` is in nats per open head. `stacks` names those whose heads may close, all when empty.
    """

    l0_penalty: Annotated[float, Between(0.0, 100.0)] = 0.0
    stacks: Annotated[str, AtMost(80)] = ""
    learning_rate: Annotated[float, Between(1e-6, 10.0)] = 0.05


WATCHED_STEPS = frozenset(n * 10**k for k in range(9) for n in (1, 2, 5))
"""Attention is looked at after these steps besides checkpoints: it changes most at the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A sentence whose attention is recorded at every checkpoint, and after each of `WATCHED_STEPS`.

    `head` is the one to look at first, such as `cross:L1H0`.
    """

    text: Annotated[str, AtMost(100_000)]
    target: Annotated[str, AtMost(100_000)] = ""
    head: Annotated[str, AtMost(60)] = ""


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
    start: StartPart = field(default_factory=StartPart)
    gates: GatesPart = field(default_factory=GatesPart)
    task_options: tuple[tuple[str, Value], ...] = ()
    watch: tuple[Watch, ...] = ()


_CODEC = Codec(quote='"')
_S = TypeVar("_S")


def table_of(part: object) -> dict[str, Any]:
    """A section's record as the table that a recipe writes."""
    return _CODEC.write(part)


def read_section(kind: type[_S], name: str, table: object) -> _S:
    """Build the section record `kind` from a TOML table; raises RecipeError naming `name.key`."""
    if not isinstance(table, Mapping):
        raise RecipeError(
            f"[{name}] is {_shown(table)}.",
            expected=f"a table headed [{name}]",
            action="Write it as a table.",
        )
    known = keys_of(kind)  # type: ignore[arg-type]  # a class has a hash
    for given in table:
        if given not in known:
            near = meant(str(given), known)
            raise RecipeError(
                f"The key {shown(f'{name}.{given}')} is unknown. {near}".rstrip(),
                expected="" if near else "one of " + ", ".join(known),
                action="Correct its spelling, or remove it.",
            )
    try:
        return _CODEC.read(kind, table)
    except Fault as fault:
        key, is_there = f"{name}.{fault.place}", fault.place in table
        found = f"{key} is {_shown(table[fault.place])}." if is_there else f"The key {key} is missing."
        action = "Change it and start again." if is_there else f"Add it under [{name}]."
        raise RecipeError(found, expected=fault.expected, action=action) from fault


def _shown(value: object) -> str:
    return shown(f'"{value}"' if isinstance(value, str) else repr(value))


_READ = OF_TRANSFORMERS | {"body", "transform_head"}
_PLAIN = ModelConfig(form="encoder-decoder", vocab_size=1)


def mended_recipe(text: str) -> tuple[str, str]:
    """The text without the keys that its body ignores, and a note that names them, empty if none."""
    model, data = _table(text, "model"), _table(text, "data")
    if model.get("mask") == "bigbird" and "random_links" not in model:
        text = _with_key(text, "model", 'random_links = "both"')
    if data.get("kind") == "text" and "held_out_by" not in data:
        text = _with_key(text, "data", 'held_out_by = "lines"')
    if data.get("kind") == "task" and data.get("path"):
        text = _without(text, "data", ("path",))
    ignored = _ignored(model)
    if not ignored:
        return text, ""
    found = ", ".join(f"model.{name} = {value}" for name, value in ignored.items())
    note = f"Removed from the recipe, since the body does not use it: {found}."
    return _without(text, "model", tuple(ignored)), note


def _with_key(text: str, section: str, line: str) -> str:
    return re.sub(rf"(?m)^([ \t]*\[[ \t]*{section}[ \t]*\].*)$", rf"\1\n{line}", text, count=1)


def _table(text: str, section: str) -> Mapping[str, object]:
    try:
        table = parse_toml(text).get(section)
    except tomllib.TOMLDecodeError:
        return {}
    return table if isinstance(table, Mapping) else {}


def _ignored(table: Mapping[str, object]) -> dict[str, object]:
    if table.get("body") not in ("rnn", "gru", "lstm"):
        return {}
    config = ModelConfig(**{**_PLAIN.to_dict(), **{k: v for k, v in table.items() if k in _READ}})
    return dict(ignored_choices(config, _PLAIN))


def _without(text: str, of: str, names: tuple[str, ...]) -> str:
    """The lines of the text except those of these keys under the heading `of`."""
    kept, section = [], ""
    for line in text.splitlines():
        heading = re.match(r"\s*\[+\s*([\w-]+)", line)
        section = heading[1] if heading else section
        written = re.match(r"\s*([\w-]+)\s*=", line)
        if not (section == of and written and written[1] in names):
            kept.append(line)
    return "\n".join([*kept, ""])
