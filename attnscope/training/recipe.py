"""Recipes: everything that decides what a training run does, read from TOML and checked at once.

A recipe is complete in itself: the same recipe, data and seed give the same weights on the CPU. This
file knows the keys and their ranges; it reads no data and builds no model.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

from attnscope.errors import RecipeError, meant
from attnscope.nn.config import ModelConfig
from attnscope.schemes.tokenizers import SPECIALS
from attnscope.strict_toml import parse_toml
from attnscope.text.examples import TOKENIZER_KIND
from attnscope.text.tasks import TASKS, Task, labels_of, make_task, task_options
from attnscope.training.choices import check_choices, model_of_objective
from attnscope.training.fields import Value, key_name, read_section
from attnscope.training.label_choices import form_of, is_free_to_set, labels_wished, without_hidden
from attnscope.training.parts import (
    FORM_OF_OBJECTIVE,
    DataPart,
    GatesPart,
    ObjectivePart,
    OptimizerPart,
    Recipe,
    SchedulePart,
    StartPart,
    TokenizerPart,
    TrainingPart,
    Watch,
)
from attnscope.training.schedules import follows_length
from attnscope.training.starting import anchored_source, model_of_start

__all__ = ["Recipe", "differences", "make_recipe_task", "parse_recipe", "tables_of", "write_recipe"]

_DERIVED_MODEL_KEYS = ("form", "vocab_size", "kept_heads", "has_next_sentence", "n_labels", "sentence_ends")

_PARTS: dict[str, type[Any]] = {
    "tokenizer": TokenizerPart,
    "data": DataPart,
    "objective": ObjectivePart,
    "optimizer": OptimizerPart,
    "schedule": SchedulePart,
    "training": TrainingPart,
    "start": StartPart,
    "gates": GatesPart,
}


def parse_recipe(
    text: str,
    *,
    overrides: Mapping[str, str] | None = None,
    base_folder: Path | None = None,
    needs_data: bool = True,
) -> Recipe:
    """Read and check a recipe.

    `overrides` are like `{"training.n_steps": "10"}` and win. A relative `data.path` is taken from
    `base_folder`, one given as an override from the current folder. Raises RecipeError; an empty one is
    let pass where no data is needed.
    """
    tables = _parse_toml(text)
    if base_folder is not None:
        _anchor_path(tables, base_folder)
    for name, value in (overrides or {}).items():
        _override(tables, name, value)
    for name in tables:
        if name not in (*_PARTS, "model", "watch"):
            raise RecipeError(
                f"The section [{name}] is unknown.",
                expected="one of " + ", ".join(f"[{part}]" for part in ("model", *_PARTS)) + ", [[watch]]",
                action=f"{meant(name, (*_PARTS, 'model', 'watch'))}Correct its spelling, or remove it.",
            )
    task_options = _take_task_options(tables.get("data"))
    parts = {name: read_section(kind, name, tables.get(name, {})) for name, kind in _PARTS.items()}
    recipe = Recipe(
        model=_model_config(tables.get("model", {}), parts["objective"], parts["tokenizer"], parts["start"]),
        watch=_read_watch(tables.get("watch", []), parts["objective"]),
        task_options=task_options,
        **parts,
    )
    check_choices(recipe)
    return _checked(recipe, is_tokenizer_given="tokenizer" in tables, needs_data=needs_data)


def make_recipe_task(recipe: Recipe) -> Task:
    """The task a recipe names, with its options."""
    return make_task(recipe.data.task, **dict(recipe.task_options))


def _take_task_options(data: object) -> tuple[tuple[str, Value], ...]:
    """Take the keys out of [data] that are options of the task it names."""
    if not isinstance(data, dict) or data.get("kind") != "task" or data.get("task") not in TASKS:
        return ()
    options = task_options(data["task"])
    known = {f.name for f in fields(DataPart)}
    for name in data:
        if name not in known and name not in options:
            make_task(data["task"], **{name: data[name]})  # says which options the task has
    return tuple((name, data.pop(name)) for name in options if name in data)


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(
            f"The recipe is not valid TOML: {error}.",
            expected="lines like n_steps = 500 under headings like [training]",
            action="Correct that line.",
        ) from error


def _anchor_path(tables: dict[str, Any], folder: Path) -> None:
    data = tables.get("data")
    if isinstance(data, dict) and isinstance(data.get("path"), str) and data["path"]:
        data["path"] = str((folder / data["path"]).absolute())
    start = tables.get("start")
    if isinstance(start, dict) and isinstance(start.get("from"), str):
        start["from"] = anchored_source(start["from"], folder)


def _override(tables: dict[str, Any], name: str, value: str) -> None:
    section, dot, entry = name.partition(".")
    if not dot or section not in ("model", *_PARTS) or not entry:
        raise RecipeError(
            f"The override {name}={value} names no key of a recipe.",
            expected="section.key=value, for instance training.n_steps=500",
            action=f"{_meant_key(section, entry)}Correct its spelling.",
        )
    table = tables.setdefault(section, {})
    if not isinstance(table, dict):
        raise RecipeError(
            f"[{section}] is not a table.", expected=f"a heading [{section}]", action="Correct it."
        )
    table[entry] = _anchored_value(name, value)


def _meant_key(section: str, entry: str) -> str:
    """After which section a misspelt one of an override is."""
    near = meant(section, ("model", *_PARTS))
    return near.replace("? ", f".{entry}? ") if entry else near


def _anchored_value(name: str, value: str) -> Value:
    """The value of an override; paths are taken from the current folder."""
    if name == "data.path":
        return str(Path(value).absolute())
    return anchored_source(value, Path.cwd()) if name == "start.from" else _toml_value(value)


def _toml_value(text: str) -> Value:
    try:
        value = parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return cast("Value", value)


def _model_config(
    table: object, objective: ObjectivePart, tokenizer: TokenizerPart, start: StartPart
) -> ModelConfig:
    if not isinstance(table, Mapping):
        raise RecipeError(
            "[model] is not a table.", expected="a heading [model]", action="Write it as a table."
        )
    for derived in _DERIVED_MODEL_KEYS:
        if derived in table and not is_free_to_set(derived, table[derived], objective):
            raise RecipeError(
                f"model.{derived} is set.",
                expected="the form to follow from objective.kind, the vocabulary from the tokenizer, labels "
                "and sentences from the data, and every head to be there",
                action=f"Remove model.{derived}.",
            )
    form = form_of(table, objective)
    table = model_of_objective(model_of_start(start, table, derived=_DERIVED_MODEL_KEYS), objective)
    whole = {**table, "form": form, "vocab_size": tokenizer.vocab_size, "n_labels": labels_wished(objective)}
    return ModelConfig.from_dict(whole, where="model")


def _read_watch(entries: object, objective: ObjectivePart) -> tuple[Watch, ...]:
    if not isinstance(entries, list):
        raise RecipeError(
            "[watch] is a single table.",
            expected="[[watch]] with two brackets",
            action="Double its brackets.",
        )
    watched = tuple(read_section(Watch, "watch", entry) for entry in entries)
    return tuple(map(without_hidden, watched)) if objective.kind == "classification" else watched


def _checked(recipe: Recipe, *, is_tokenizer_given: bool, needs_data: bool) -> Recipe:
    data, objective = recipe.data, recipe.objective.kind
    if data.kind == "task":
        return _checked_task(recipe, is_tokenizer_given=is_tokenizer_given)
    if needs_data and not data.path:
        raise RecipeError(
            f'data.kind is "{data.kind}" but data.path is empty.',
            expected="the path of a UTF-8 text file",
            action="Add path = … under [data], or --set data.path=… on the command line.",
        )
    if data.held_out_by == "crc32" and data.kind != "pairs":
        raise RecipeError(
            f'data.held_out_by is "crc32" and data.kind "{data.kind}".',
            expected='"characters" or "lines"; "crc32" is for pairs',
            action="Change one of them.",
        )
    if data.careless_share and data.kind != "pairs":
        raise RecipeError(
            f'data.careless_share is {data.careless_share:g} and data.kind "{data.kind}".',
            expected="0, but for pairs",
            action="Change one of them.",
        )
    if (data.kind == "pairs") != (objective == "translation") and "labelled" != data.kind:
        raise RecipeError(
            f'data.kind "{data.kind}" does not go with objective.kind "{objective}".',
            expected='"text" with "causal", "masked" or "span-corruption", "pairs" with "translation"',
            action="Change one of them.",
        )
    return recipe


def _checked_task(recipe: Recipe, *, is_tokenizer_given: bool) -> Recipe:
    name, objective = recipe.data.task, recipe.objective.kind
    if name not in TASKS:
        raise RecipeError(
            f'data.task is "{name}".',
            expected="one of " + ", ".join(TASKS),
            action="Choose one of these tasks.",
        )
    task = make_recipe_task(recipe)
    labels = labels_of(task)
    if FORM_OF_OBJECTIVE[objective] != task.form or bool(labels) != (objective == "classification"):
        fitting = next(kind for kind, form in FORM_OF_OBJECTIVE.items() if form == task.form)
        fitting = "classification" if labels else fitting
        raise RecipeError(
            f'The task "{name}" does not go with objective.kind "{objective}".',
            expected=f'"{fitting}"',
            action="Change objective.kind or the task.",
        )
    if is_tokenizer_given and recipe.tokenizer.kind != TOKENIZER_KIND:
        raise RecipeError(
            f'tokenizer.kind is "{recipe.tokenizer.kind}".',
            expected=f'"{TOKENIZER_KIND}", which the task "{name}" brings along',
            action="Remove [tokenizer].",
        )
    tokenizer = TokenizerPart(kind=TOKENIZER_KIND, vocab_size=max(8, len(task.vocabulary) + len(SPECIALS)))
    model = replace(recipe.model, vocab_size=tokenizer.vocab_size, n_labels=len(labels))
    return replace(recipe, tokenizer=tokenizer, model=model)


def tables_of(recipe: Recipe) -> dict[str, dict[str, Value]]:
    """Every key of every section with its value, defaults included, watch sentences left out."""
    model = {
        k: v
        for k, v in recipe.model.to_dict().items()
        if v is not None and (k not in _DERIVED_MODEL_KEYS or is_free_to_set(k, v, recipe.objective))
    }
    tables: dict[str, dict[str, Value]] = {"model": cast("dict[str, Value]", model)}
    for name in _PARTS:
        part = getattr(recipe, name)
        tables[name] = {key_name(f): getattr(part, f.name) for f in fields(part)}
    tables["data"].update(recipe.task_options)
    return tables


def write_recipe(recipe: Recipe) -> str:
    """The recipe as TOML, every value written out; reading it back gives the same recipe."""
    blocks = [(f"[{name}]", table) for name, table in tables_of(recipe).items()]
    blocks += [("[[watch]]", {"text": w.text, "target": w.target}) for w in recipe.watch]
    lines = []
    for heading, table in blocks:
        lines += [heading, *(f"{name} = {toml_text(value)}" for name, value in table.items()), ""]
    return "\n".join(lines)


def toml_text(value: Value) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m.group()):04x}", escaped) + '"'
    return repr(value)


def differences(old: Recipe, new: Recipe, *, may_lengthen: bool = False) -> tuple[str, ...]:
    """What differs, as lines like `optimizer.beta1: was 0.9, now 0.8`; only what can change weights.

    How often to look and to save, the name and the watched sentences may change; so may the place of the
    data, whose fingerprint is compared by itself, and the number of steps where neither schedule nor data
    depend on it, or, with `may_lengthen`, where there are more.
    """
    free = {
        "data.about",
        "data.path",
        "training.checkpointing",
        "training.evaluate_every",
        "training.evaluation_batches",
        "training.inspect_every",
        "training.name",
        "training.save_every",
        "training.sharded",
        "training.tensorboard",
    }
    is_longer = new.training.n_steps > old.training.n_steps
    if (may_lengthen and is_longer) or not follows_length(new):
        free.add("training.n_steps")
    before, after = _flat(old), _flat(new)
    return tuple(
        f"{name}: was {before.get(name)!r}, now {after.get(name)!r}"
        for name in sorted({*before, *after})
        if name not in free and before.get(name) != after.get(name)
    )


def _flat(recipe: Recipe) -> dict[str, Value]:
    return {f"{section}.{k}": v for section, table in tables_of(recipe).items() for k, v in table.items()}
