"""Exporting a trained model with a card: the command, the seed, the time, and what was measured."""

import dataclasses
import os
import platform
from pathlib import Path

import torch

from attnscope import __version__
from attnscope.cli.claims import sentences_about
from attnscope.counting import counted
from attnscope.models.checkpoint import write_model_folder
from attnscope.nn.config import ModelConfig, count_parameters
from attnscope.records.training import Evaluated
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
    """Save the trained model as a model folder whose card says how it was made; raises SaveError.

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
    """The card in Markdown."""
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
        return f"{counted(config.n_layers, 'layer')} of {counted(config.n_heads, 'head')}"
    heads = f"{counted(config.n_heads, 'head')} of" if config.has_attention else "no"
    return f"{config.body.upper()} cells in {counted(config.n_layers, 'layer')} and {heads} attention"


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
            return f"Trained on the file {name}: {about}"
