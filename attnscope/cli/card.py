"""Exports a trained model with a card: the command, the seed, the time, and the measurements."""

import dataclasses
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from attnscope import __version__
from attnscope.analysis.corpus import measure_corpus
from attnscope.analysis.induction_score import repeated_rows
from attnscope.analysis.metrics import bleu
from attnscope.analysis.word_alignment import measure_alignment
from attnscope.analysis.words import AlignedPair, everyday_pairs
from attnscope.counting import percent, plural
from attnscope.models import Model, write_model_folder
from attnscope.models.writing.translating import translate_texts
from attnscope.nn import ModelConfig, count_parameters
from attnscope.records.findings import AlignmentTable
from attnscope.records.measures import HeadTable, interval_said, order_heads, with_interval
from attnscope.records.outputs import WriteSettings
from attnscope.records.runs import Evaluated, loss_unit
from attnscope.text.examples import Example
from attnscope.text.tasks import make_task
from attnscope.training.data import held_out_pairs
from attnscope.training.loop import TrainingRun
from attnscope.training.recipe import Recipe


def export_model(
    training: TrainingRun,
    folder: Path,
    command: str,
    seconds: tuple[float, float],
    last: Evaluated | None,
    *,
    is_half: bool = False,
) -> None:
    """Save the trained model with a card that describes how it was made; raises SaveError.

    `seconds` are wall-clock and processor seconds of the training. With `is_half` the weights are rounded to
    float16 in the file.
    """
    model, data = training.model, training.recipe.data
    held_out = f"the last {data.validation_share:.3g} of the text's {data.held_out_by}"
    measured = sentences_about(
        model,
        last,
        training.characters_per_token,
        held_out if data.kind == "text" else "",
        held_out_pairs(training.recipe) if data.kind == "pairs" else (),
    )
    card = dataclasses.replace(
        model.own.card,
        training={
            **model.own.card.training,
            "step": training.step,
            **({"stored_as": "float16"} if is_half else {}),
        },
        text=card_text(training, command, seconds, measured, is_half=is_half),
    )
    own, dtype = model.own, torch.float16 if is_half else torch.float32
    write_model_folder(folder, own.module, own.config, own.vocabulary, card, dtype=dtype)


def card_text(
    training: TrainingRun,
    command: str,
    seconds: tuple[float, float],
    measured: tuple[str, ...],
    *,
    is_half: bool = False,
) -> str:
    recipe, config = training.recipe, training.model.own.config
    wall_s, processor_s = seconds
    n_parameters = count_parameters(config).total
    article = "A" if config.form == "decoder" else "An"
    lines = [
        f"# {recipe.training.name}",
        "",
        f"{article} {config.form} with {_layers(config)}, {config.d_model} wide, "
        f"{config.vocab_size:,} pieces ({training.model.own.vocabulary.kind}), at most {config.max_tokens} "
        f"tokens, {n_parameters:,} parameters in {'float16' if is_half else 'float32'}.",
        "",
        "## How it was made",
        "",
        f"    {command}",
        "",
        f"Seed {recipe.training.seed}, {recipe.training.n_steps:,} steps of "
        f"{recipe.training.batch_size * recipe.training.accumulate} sequences, precision "
        f"{recipe.training.precision}, with AttnScope {__version__}. {_time(wall_s, processor_s, training)}",
        "",
        "## What was measured",
        "",
        *measured,
        "",
        "## Data and licence",
        "",
        _about_data(recipe),
        "",
    ]
    return "\n".join(lines)


def _layers(config: ModelConfig) -> str:
    if not config.is_recurrent:
        of = "" if config.has_sites else f" ({config.mixer}, no attention)"
        return f"{plural(config.n_layers, 'layer')} of {plural(config.n_heads, 'head')}{of}"
    heads = f"{plural(config.n_heads, 'head')} of" if config.has_attention else "no"
    return f"{config.body.upper()} cells in {plural(config.n_layers, 'layer')} and {heads} attention"


def _time(wall_s: float, processor_s: float, training: TrainingRun) -> str:
    machine = platform.machine() or "unknown"
    where = f"{machine} processor" if training.device.type == "cpu" else str(training.device)
    resumed = f"Resumed at step {training.first_step:,}; from there " if training.first_step else ""
    return (
        f"{resumed}{processor_s / 60:.1f} processor minutes ({wall_s / 60:.1f} minutes on a shared clock), "
        f"on one core of a machine with {os.cpu_count()} ({where})."
    )


def _about_data(recipe: Recipe) -> str:
    match recipe.data.kind:
        case "task":
            return (
                f"The built-in task {recipe.data.task}, written for AttnScope; the model and its data "
                "are under AttnScope's MIT licence."
            )
        case _:
            name = Path(recipe.data.path).name
            about = recipe.data.about or "its licence is that of the text."
            kind = "folder" if Path(recipe.data.path).is_dir() else "file"
            return f"Trained on the {kind} {name}: {about}"


_SEED = 2017
_N_ROWS = 32
_N_SENTENCES, _N_ALIGNED, _MOST_TRANSLATED = 500, 3_000, 2_500
_ENGLISH_FRENCH = "english-french"
"""The name of the task of the grammar, and of the recipe whose pairs are everyday English and French."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exactness:
    """Held-out sentences translated greedily: how many match word for word, and the others."""

    n_sentences: int
    wrong: tuple[tuple[str, str, str], ...]

    @property
    def share(self) -> float:
        """The share that is exact, 0…1."""
        return 1.0 - len(self.wrong) / self.n_sentences


def measure_exactness(model: Model, examples: Sequence[Example]) -> Exactness:
    """Translate each source; differing results are kept as source, expected, generated."""
    tokenizer = model.own.vocabulary
    expected = [tokenizer.decode(ids) for ids in tokenizer.encode_lines(e.target or "" for e in examples)]
    written = [
        (e.source, target, model.generate(e.source)) for e, target in zip(examples, expected, strict=True)
    ]
    wrong = tuple(triple for triple in written if triple[1] != triple[2])
    return Exactness(n_sentences=len(written), wrong=wrong)


def sentences_about(
    model: Model,
    last: Evaluated | None,
    characters_per_token: float,
    held_out: str = "",
    pairs: Sequence[tuple[str, str]] = (),
) -> tuple[str, ...]:
    """The measured results in sentences for the card; `held_out` says what the loss is measured on.

    `pairs` are those held out from a translator, the sources with all their translations.
    """
    sentences = []
    if last is not None:
        unit, is_of_labels = loss_unit([model.info.objective]), bool(model.own.card.labels)
        perplexity = "" if is_of_labels else f" (perplexity {math.exp(min(last.loss, 700.0)):.2f})"
        scored = "labels" if is_of_labels else "scored tokens"
        sentences.append(
            f"Validation loss {last.loss:.4f} {unit}{perplexity}, "
            f"{percent(last.accuracy, 1)} of the {scored} right."
        )
    if last is not None and model.info.objective == "causal" and characters_per_token > 0:
        sentences.append(
            f"A held-out token has {characters_per_token:.2f} characters, so this is "
            f"{last.loss / characters_per_token:.4f} nats a character{held_out and f', on {held_out}'}."
        )
    match model.info.objective:
        case "causal":
            sentences += _about_repeats(model)
        case "translation" if model.own.card.training.get("task") == _ENGLISH_FRENCH:
            sentences += _about_grammar(model)
        case "translation" if pairs:
            sentences += _about_pairs(model, pairs)
    return tuple(sentences)


def _about_repeats(model: Model) -> list[str]:
    rows = repeated_rows(model, n_rows=_N_ROWS, seed=_SEED)
    *_, table = measure_corpus(model, rows)
    if not isinstance(table, HeadTable):
        raise AssertionError("unreachable: the last thing that measuring gives is its table")
    return [
        "- Induction score (mean weight on the token after the same one before, on random tokens written "
        f"twice; Olsson et al. 2022): {_best_heads(table, 'stripe')}.",
        "- Weight on the previous token, on random tokens of the whole vocabulary written twice: "
        f"{_best_heads(table, 'previous')}.",
    ]


def _best_heads(table: HeadTable, measure: str, n: int = 3) -> str:
    best = [table.heads[row] for row in order_heads(table, measure)[:n]]
    found = [table.estimate(head, measure) for head in best]
    said = ", ".join(
        f"{head.label} {with_interval(one.value, one.low, one.high, 3)}"
        for head, one in zip(best, found, strict=True)
    )
    return f"{said}; {found[0].basis}"


def _about_pairs(model: Model, pairs: Sequence[tuple[str, str]]) -> list[str]:
    references: dict[str, list[str]] = {}
    for source, target in pairs:
        references.setdefault(source, []).append(target)
    step = -(-len(references) // _MOST_TRANSLATED)
    sources = list(references)[::step]
    settings = WriteSettings(mode="greedy", max_tokens=200)
    written = {one.index: one.text for one in translate_texts(model, sources, settings)}
    lines = [written.get(index, "") for index in range(len(sources))]
    score = bleu(lines, [tuple(references[source]) for source in sources])
    value = with_interval(score.value, score.low, score.high, 1)
    found = [
        f"- BLEU {value}, greedy, all references of a sentence ({score.signature}); "
        f"{interval_said(score.n_texts, 'held-out sentence')}."
    ]
    if model.info.name == _ENGLISH_FRENCH:
        aligned = everyday_pairs()
        found += [f"On {len(aligned)} everyday pairs, aligned by hand:", *about_alignment(model, aligned)]
    return found


def _about_grammar(model: Model) -> list[str]:
    task = make_task(_ENGLISH_FRENCH)
    aligned = task.examples(_N_ALIGNED, seed=_SEED, held_out=True)
    exact = measure_exactness(model, task.examples(_N_SENTENCES, seed=_SEED, held_out=True))
    return [
        f"{percent(exact.share, 1)} of {exact.n_sentences} held-out sentences are translated word for word.",
        f"On {_N_ALIGNED:,} held-out sentences, drawn with seed {_SEED}:",
        *about_alignment(model, [pair_of(example) for example in aligned]),
    ]


def pair_of(example: Example) -> AlignedPair:
    """An example of a translation task as a pair with its known links."""
    return AlignedPair(source=example.source, target=example.target or "", sure=frozenset(example.links))


def about_alignment(model: Model, pairs: Sequence[AlignedPair]) -> list[str]:
    """The agreement of cross-attention with the known links, one sentence for each meaning of a row."""
    sentences = []
    for rows, meaning in (("predicting", "that predicts it"), ("reading", "that has just read it")):
        table = list(measure_alignment(model, pairs, rows=rows))[-1]
        if not isinstance(table, AlignmentTable):
            raise AssertionError("unreachable: the last thing an alignment gives is its table")
        n_heads = len(table.heads)
        head = int(np.nanargmin(table.error_rate[:n_heads]))
        layer = n_heads + int(np.nanargmin(table.error_rate[n_heads:]))
        best_head, best_layer = (
            f"{table.label(at)} "
            + with_interval(float(table.error_rate[at]), float(table.low[at]), float(table.high[at]), 4)
            for at in (head, layer)
        )
        sentences.append(
            f"- Alignment error rate, a word aligned by the row {meaning}: best head {best_head}, best layer "
            f"{best_layer}; {table.interval_said}."
        )
    return sentences
