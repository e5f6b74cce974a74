"""Recipes: everything that determines a training run, read from TOML and checked at once.

A recipe is complete in itself: the same recipe, data and seed give the same weights on the CPU. This
file knows the keys and their ranges; it reads no data and builds no model.

What an objective asks of the model and which choices go together is told by key, value found and value
expected. The number of labels is a wish until the data are read.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

from attnscope.counting import listed
from attnscope.errors import RecipeError, meant, shown
from attnscope.nn import ModelConfig, ignored_choices
from attnscope.nn.config_checks import ID_LISTS
from attnscope.outside import parse_toml
from attnscope.records.models import Form
from attnscope.records.sites import Stack, is_head_label
from attnscope.schemes.masks import MASKS
from attnscope.schemes.norms import NORMS
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.schemes.optimizers import OPTIMIZERS
from attnscope.schemes.scores import SCORES
from attnscope.schemes.tokenizers import SPECIALS
from attnscope.text.examples import TOKENIZER_KIND, picture_shape_of, pointers_of, vectors_of
from attnscope.text.pairs import joining_words
from attnscope.text.tasks import TASKS, Task, labels_of, make_task, task_options, word_labels_of
from attnscope.training.optimizers import follows_length
from attnscope.training.parts import (
    DataPart,
    GatesPart,
    ObjectivePart,
    OptimizerPart,
    Recipe,
    SchedulePart,
    StartPart,
    TokenizerPart,
    TrainingPart,
    Value,
    Watch,
    read_section,
    table_of,
)
from attnscope.training.starting import anchored_path, anchored_source, model_of_start, without_other_shape

__all__ = [
    "Recipe",
    "differences",
    "gated_stacks",
    "make_recipe_task",
    "parse_recipe",
    "tables_of",
    "write_recipe",
]

_WISHED_LABELS = 2
_LEAST_TEXT = 8
"""Tokens of running text, the shortest from which every objective has something to learn."""
_HIDDEN = re.compile(r"\s*(<mask>|\[MASK\])")
_STACKS_OF_FORM: dict[Form, tuple[Stack, ...]] = {
    "encoder": ("encoder",),
    "decoder": ("decoder",),
    "encoder-decoder": ("encoder", "decoder", "cross"),
}
_Fault = tuple[str, object, str]
"""The key, the value found, and what was expected."""
_DERIVED_MODEL_KEYS = (
    "form",
    "vocab_size",
    "kept_heads",
    "has_next_sentence",
    "n_labels",
    *ID_LISTS,
    "n_numbers",
    "picture_height",
    "picture_width",
)
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
    given = overrides or {}
    data, start = tables.get("data"), tables.get("start")
    if isinstance(data, dict) and "data.path" in given and not data.get("path"):
        data.pop("about", None)  # it tells of the text that the recipe was made for
    is_started = "start.from" in given and not (isinstance(start, dict) and start.get("from"))
    for name, value in given.items():
        _override(tables, name, value)
    for name in tables:
        if name not in (*_PARTS, "model", "watch"):
            raise RecipeError(
                f"The section [{shown(name)}] is unknown.",
                expected="one of " + ", ".join(f"[{part}]" for part in ("model", *_PARTS)) + ", [[watch]]",
                action=f"{meant(name, (*_PARTS, 'model', 'watch'))}Correct its spelling, or remove it.",
            )
    task_options = _take_task_options(tables.get("data"))
    parts = {name: read_section(kind, name, tables.get(name, {})) for name, kind in _PARTS.items()}
    model = tables.get("model", {})
    if is_started and isinstance(model, Mapping):
        model = without_other_shape(model, parts["start"], [name.partition(".")[2] for name in given])
    recipe = Recipe(
        model=_model_config(model, parts["objective"], parts["tokenizer"], parts["start"]),
        watch=_read_watch(tables.get("watch", []), parts["objective"]),
        task_options=task_options,
        **parts,
    )
    _check_choices(recipe)
    return _checked(recipe, is_tokenizer_given="tokenizer" in tables, needs_data=needs_data)


def make_recipe_task(recipe: Recipe) -> Task:
    """The task a recipe names, with its options."""
    return make_task(recipe.data.task, **dict(recipe.task_options))


def _take_task_options(data: object) -> tuple[tuple[str, Value], ...]:
    """Remove from [data] the keys that are options of its task."""
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
        data["path"] = anchored_path(data["path"], folder)
    start = tables.get("start")
    if isinstance(start, dict) and isinstance(start.get("from"), str):
        start["from"] = anchored_source(start["from"], folder)


def _override(tables: dict[str, Any], name: str, value: str) -> None:
    section, dot, entry = name.partition(".")
    if not dot or section not in ("model", *_PARTS) or not entry:
        raise RecipeError(
            f"The override {shown(f'{name}={value}')} does not name a recipe key.",
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
    """A suggestion for an override's misspelt section."""
    near = meant(section, ("model", *_PARTS))
    return near.replace("? ", f".{entry}? ") if entry else near


def _anchored_value(name: str, value: str) -> Value:
    """The value of an override; paths are relative to the current folder."""
    if name == "data.path":
        return anchored_path(value, Path.cwd())
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
        if derived in table and not _is_free_to_set(derived, table[derived], objective):
            raise RecipeError(
                f"model.{derived} is set.",
                expected=(
                    "the form to follow from objective.kind, the vocabulary from the tokenizer, labels "
                    "and sentences from the data, and every head to be present"
                ),
                action=f"Remove model.{derived}.",
            )
    form = _form_of(table, objective)
    started = model_of_start(start, table, derived=_DERIVED_MODEL_KEYS)
    if start.prompt_tokens:
        _check_prompt(start, form, objective)
        started = {"memory_tokens": start.prompt_tokens, **started}
    table = _model_of_objective(started, objective, table)
    whole = {**table, "form": form, "vocab_size": tokenizer.vocab_size, "n_labels": _labels_wished(objective)}
    return ModelConfig.from_dict(whole, where="model")


def _check_prompt(start: StartPart, form: Form, objective: ObjectivePart) -> None:
    """Check a recipe's prompt, naming its own key: in the model it is memory tokens."""
    expected = ""
    if not start.source:
        expected = "0, since start.from names no model"
    elif form == "encoder-decoder" or OBJECTIVES[objective.kind].labels:
        expected = f'0: a model of objective.kind "{objective.kind}" reads no prompt'
    if expected:
        raise RecipeError(
            f"start.prompt_tokens is {start.prompt_tokens}.",
            expected=expected,
            action="Change it or what it goes with.",
        )


def _read_watch(entries: object, objective: ObjectivePart) -> tuple[Watch, ...]:
    if not isinstance(entries, list):
        raise RecipeError(
            "[watch] is a single table.",
            expected="[[watch]] with two brackets",
            action="Double its brackets.",
        )
    watched = tuple(read_section(Watch, "watch", entry) for entry in entries)
    for one in watched:
        if one.head and not is_head_label(one.head):
            raise RecipeError(
                f"watch.head is {one.head!r}.",
                expected="stack, layer and head, such as cross:L1H0 or encoder:L0H2",
                action="Correct it, or leave it out.",
            )
    return tuple(map(_without_hidden, watched)) if OBJECTIVES[objective.kind].labels else watched


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
    for key in ("careless_share", "joined_share", "exchanged_share"):
        share = getattr(data, key)
        if share and data.kind != "pairs":
            raise RecipeError(
                f'data.{key} is {share:g} and data.kind "{data.kind}".',
                expected="0, but for pairs",
                action="Change one of them.",
            )
    try:
        joining_words(data.joined_by)
    except ValueError as error:
        raise RecipeError(
            f'data.joined_by is "{data.joined_by}", and {error}.',
            expected='words and their translations, such as "and/et, but/mais"',
            action="Write each word, a slash and its translation, with commas between.",
        ) from error
    if data.renamed_share and data.kind not in ("text", "pairs"):
        raise RecipeError(
            f'data.renamed_share is {data.renamed_share:g} and data.kind "{data.kind}".',
            expected="0, but for running text and pairs",
            action="Change one of them.",
        )
    if data.kind not in OBJECTIVES[objective].data:
        raise RecipeError(
            f'data.kind "{data.kind}" does not go with objective.kind "{objective}".',
            expected=_data_and_objectives(),
            action="Change one of them.",
        )
    is_of_pictures = data.kind == "pictures"
    _check_patches(recipe.model.patch_size, f'data.kind "{data.kind}"', is_of_pictures=is_of_pictures)
    return recipe


def _check_patches(patch_size: int, data: str, *, is_of_pictures: bool) -> None:
    """Check that patches go with pictures, and pictures with patches."""
    if bool(patch_size) == is_of_pictures:
        return
    size = "pixels of a side of a patch, such as 4"
    raise RecipeError(
        f"model.patch_size is {patch_size} and {data} has {'pictures' if is_of_pictures else 'no picture'}.",
        expected=size if is_of_pictures else "0: no pictures are read",
        action="Change one of them.",
    )


def _checked_task(recipe: Recipe, *, is_tokenizer_given: bool) -> Recipe:
    name, objective = recipe.data.task, recipe.objective.kind
    if recipe.data.path:
        kinds = " or ".join(f'"{kind}"' for kind in OBJECTIVES[objective].data)
        raise RecipeError(
            f'data.path is "{shown(recipe.data.path)}" and data.kind "task", which reads no file.',
            expected=f'data.kind {kinds} to read it, or no data.path: the task "{name}" makes its own data',
            action="Change one of them.",
        )
    if name not in TASKS:
        raise RecipeError(
            f'data.task is "{name}".',
            expected="one of " + ", ".join(TASKS),
            action="Choose one of these tasks.",
        )
    task = make_recipe_task(recipe)
    labels = labels_of(task) or word_labels_of(task) or pointers_of(task)
    if not OBJECTIVES[objective].reads_task(task):
        fitting = [f'"{one.name}"' for one in OBJECTIVES.values() if one.reads_task(task)]
        raise RecipeError(
            f'The task "{name}" does not go with objective.kind "{objective}".',
            expected=" or ".join(fitting),
            action="Change objective.kind or the task.",
        )
    _raise_first(OBJECTIVES[objective].task_faults(recipe))
    if is_tokenizer_given and recipe.tokenizer.kind != TOKENIZER_KIND:
        raise RecipeError(
            f'tokenizer.kind is "{recipe.tokenizer.kind}".',
            expected=f'"{TOKENIZER_KIND}", which comes with the task "{name}"',
            action="Remove [tokenizer].",
        )
    tokenizer = TokenizerPart(kind=TOKENIZER_KIND, vocab_size=max(8, len(task.vocabulary) + len(SPECIALS)))
    vectors, (height, width, n_channels) = vectors_of(task), picture_shape_of(task) or (0, 0, 0)
    _check_patches(recipe.model.patch_size, f'the task "{name}"', is_of_pictures=bool(height))
    model = replace(
        recipe.model,
        vocab_size=tokenizer.vocab_size,
        n_labels=len(labels),
        n_numbers=n_channels * recipe.model.patch_size**2 if vectors is None else vectors.shape[1],
        picture_height=height,
        picture_width=width,
    )
    model.check()
    return replace(recipe, tokenizer=tokenizer, model=model)


def tables_of(recipe: Recipe) -> dict[str, dict[str, Value]]:
    """Every key of every section with its value, including defaults, without watched sentences."""
    model = {
        k: v
        for k, v in recipe.model.to_dict().items()
        if v is not None and (k not in _DERIVED_MODEL_KEYS or _is_free_to_set(k, v, recipe.objective))
    }
    tables: dict[str, dict[str, Value]] = {"model": cast("dict[str, Value]", model)}
    for name in _PARTS:
        tables[name] = table_of(getattr(recipe, name))
    tables["data"].update(recipe.task_options)
    return tables


def write_recipe(recipe: Recipe) -> str:
    """The recipe as TOML, every value written out; reading it back gives the same recipe."""
    blocks = [(f"[{name}]", table) for name, table in tables_of(recipe).items()]
    for one in recipe.watch:
        head: dict[str, Value] = {"head": one.head} if one.head else {}
        blocks.append(("[[watch]]", {"text": one.text, "target": one.target, **head}))
    lines = []
    for heading, table in blocks:
        lines += [heading, *(f"{name} = {toml_text(value)}" for name, value in table.items()), ""]
    return "\n".join(lines)


def toml_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m.group()):04x}", escaped) + '"'
    return repr(value)


def differences(old: Recipe, new: Recipe, *, may_lengthen: bool = False) -> tuple[str, ...]:
    """Differences as lines like `optimizer.beta1: was 0.9, now 0.8`, if they can change weights.

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


def _model_of_objective(
    table: Mapping[str, object], objective: ObjectivePart, given: Mapping[str, object]
) -> dict[str, object]:
    """The model section as the objective requires; raises RecipeError if it conflicts."""
    asked = OBJECTIVES[objective.kind].asked_of_model(objective)
    if asked is None:
        return dict(table)
    for name, value in asked.keys.items():
        is_of_start = name == "pooling" and name not in given  # which no label of the start went through
        if name in table and table[name] != value and not is_of_start:
            raise RecipeError(
                f"model.{name} is {table[name]!r} though {asked.cause}.",
                expected=f"{str(value).lower()}, {asked.reason}",
                action=f"Remove model.{name}, or {asked.instead}.",
            )
    return {**table, **asked.keys}


def _check_choices(recipe: Recipe) -> None:
    """Raise RecipeError for the first choice that conflicts with the others."""
    for faults in (
        _objective_faults,
        _guide_faults,
        _body_faults,
        _label_faults,
        _start_faults,
        _gate_faults,
        _growth_faults,
    ):
        _raise_first(faults(recipe))


def _raise_first(faults: Iterator[_Fault]) -> None:
    for key, value, expected in faults:
        raise RecipeError(
            f"{key} is {_shown(value)}.", expected=expected, action="Change it or what it goes with."
        )


def gated_stacks(part: GatesPart, form: Form) -> tuple[Stack, ...]:
    """The stacks whose heads have learned gates; none while the penalty is 0."""
    if not part.l0_penalty:
        return ()
    there, wanted = _STACKS_OF_FORM[form], part.stacks.replace(",", " ").split()
    return tuple(stack for stack in there if not wanted or stack in wanted)


def _objective_faults(recipe: Recipe) -> Iterator[_Fault]:
    kind = recipe.objective.kind
    if recipe.training.sharded and OPTIMIZERS[recipe.optimizer.kind].needs_whole:
        told = f'false, since optimizer.kind "{recipe.optimizer.kind}" needs whole matrices'
        yield "training.sharded", True, told
    if NORMS[recipe.model.norm].is_of_batch:
        told = f'false, since model.norm "{recipe.model.norm}" needs all rows of a batch at once'
        for name in ("sharded", "checkpointing"):
            if getattr(recipe.training, name):
                yield f"training.{name}", True, told
    if recipe.model.is_reversible:
        told = "false: reversible layers compute again what they read, by themselves"
        for name in ("sharded", "checkpointing"):
            if getattr(recipe.training, name):
                yield f"training.{name}", True, told
    for name in ("whole_words", "next_sentence"):
        readers = [one.name for one in OBJECTIVES.values() if name in one.choices]
        if getattr(recipe.objective, name) and kind not in readers:
            told = " or ".join(f'"{reader}"' for reader in readers)
            yield f"objective.{name}", True, f'false, since objective.kind is "{kind}", not {told}'
    yield from OBJECTIVES[kind].faults(recipe)


def _guide_faults(recipe: Recipe) -> Iterator[_Fault]:
    objective, model = recipe.objective, recipe.model
    name, guide = objective.guided_head, objective.guide
    has_sums = SCORES[model.score].comparison == "kernel"
    if not name:
        return
    if not OBJECTIVES[objective.kind].can_guide or model.is_recurrent:
        yield "objective.guided_head", name, "empty but for a Transformer that translates"
    elif guide is None or guide.layer >= model.decoder_layers or guide.head >= model.n_heads:
        most = f"L{model.decoder_layers - 1}H{model.n_heads - 1}"
        yield "objective.guided_head", name, f"a head of the cross-attention, from L0H0 to {most}"
    elif has_sums or recipe.gates.l0_penalty or recipe.training.checkpointing:
        also = "model.score kernel, gates.l0_penalty and training.checkpointing"
        yield "objective.guided_head", name, f"empty beside {also}"


def _body_faults(recipe: Recipe) -> Iterator[_Fault]:
    model = recipe.model
    plain = ModelConfig(form=model.form, vocab_size=model.vocab_size)
    ignored = list(ignored_choices(model, plain))
    if ignored:
        name, value = ignored[0]
        usual = [(key, getattr(plain, key)) for key, _ in ignored]
        told = ", ".join(f"{key} = {_shown(known)}" for key, known in usual if known is not None)
        either = f"{told}, or left out" if told else "left out"
        expected = f'{either}: the cells of model.body = "{model.body}" do not use it'
        yield f"model.{name}", value, expected
    if model.is_recurrent:
        of_transformers = f'only a Transformer has it, and model.body is "{model.body}"'
        if recipe.training.checkpointing:
            yield "training.checkpointing", True, f"false: {of_transformers}"
        if recipe.start.lora_rank:
            yield "start.lora_rank", recipe.start.lora_rank, f"0: {of_transformers}"


def _start_faults(recipe: Recipe) -> Iterator[_Fault]:
    start, model = recipe.start, recipe.model
    if not start.source:
        if start.reinit_layers:
            yield "start.reinit_layers", start.reinit_layers, "0, since start.from names no model"
        for key, value in (("lora_rank", start.lora_rank), ("prompt_tokens", start.prompt_tokens)):
            if value:
                yield f"start.{key}", value, "0, since start.from names no model"
    most = max(model.encoder_layers, model.decoder_layers)
    if start.reinit_layers > most:
        yield "start.reinit_layers", start.reinit_layers, f"at most {most}, the layers of a stack"
    if start.reinit_layers and start.lora_rank:
        yield "start.reinit_layers", start.reinit_layers, "0, since with start.lora_rank only adapters learn"
    if start.lora_rank and recipe.training.sharded:
        yield "start.lora_rank", start.lora_rank, "0, since training.sharded is true: adapters are not spread"
    if model.shared_layers:
        told = "since model.shared_layers is true: no layer has weights of its own"
        for key, value in (("lora_rank", start.lora_rank), ("reinit_layers", start.reinit_layers)):
            if value:
                yield f"start.{key}", value, f"0, {told}"
        if recipe.training.sharded:
            yield "training.sharded", True, f"false, {told}"
    if start.lora_rank and not model.has_sites:
        told = "0, since adapters are of attention, and model.mixer is"
        yield "start.lora_rank", start.lora_rank, f'{told} "{model.mixer}"'
    if start.prompt_tokens and model.memory_tokens != start.prompt_tokens:
        told = f"{model.memory_tokens}, as many as model.memory_tokens"
        yield "start.prompt_tokens", start.prompt_tokens, told
    if start.prompt_tokens:
        told = "0, since with start.prompt_tokens only the prompt learns"
        for key, value in (("lora_rank", start.lora_rank), ("reinit_layers", start.reinit_layers)):
            if value:
                yield f"start.{key}", value, told
        if recipe.gates.l0_penalty:
            yield "gates.l0_penalty", recipe.gates.l0_penalty, told
        if recipe.training.sharded:
            yield "training.sharded", True, "false, since with start.prompt_tokens only the prompt learns"
    if start.lora_rank > model.d_model:
        yield "start.lora_rank", start.lora_rank, f"at most d_model, which is {model.d_model}"


def _gate_faults(recipe: Recipe) -> Iterator[_Fault]:
    stacks, form = recipe.gates.stacks, recipe.model.form
    there = _STACKS_OF_FORM[form]
    if any(word not in there for word in stacks.replace(",", " ").split()):
        yield "gates.stacks", stacks, f"some of {', '.join(there)}, or nothing for all"


def _growth_faults(recipe: Recipe) -> Iterator[_Fault]:
    """Conflicts with batches and texts that grow over the first steps."""
    schedule, model = recipe.schedule, recipe.model
    start, n_most = schedule.batch_start, recipe.training.batch_size
    if schedule.batch_warmup_steps and start > n_most:
        yield "schedule.batch_start", start, f"at most training.batch_size, which is {n_most}"
    if not schedule.length_warmup_steps:
        return
    start = schedule.length_start
    n_before = model.memory_tokens + model.prefix_tokens * MASKS[model.mask].has_prefix
    least = n_before + (_LEAST_TEXT if recipe.data.kind == "text" else 1)
    if model.patch_size:
        told = "0: pictures are all of one size"
        yield "schedule.length_warmup_steps", schedule.length_warmup_steps, told
    elif start > model.max_tokens:
        yield "schedule.length_start", start, f"at most model.max_tokens, which is {model.max_tokens}"
    elif start < least:
        first = f" beside {n_before} in front of it" if n_before else ""
        yield "schedule.length_start", start, f"at least {least}: some tokens of each text{first}"


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text.lower() if isinstance(value, bool) else text


def _form_of(table: Mapping[str, object], objective: ObjectivePart) -> Form:
    """The form of model: the objective's default, or another that supports it."""
    forms = OBJECTIVES[objective.kind].forms
    form = table.get("form") if len(forms) > 1 else forms[0]
    return cast("Form", form if form in forms else forms[0])


def _is_free_to_set(key: str, value: object, objective: ObjectivePart) -> bool:
    """Whether a recipe may set this key of [model], which otherwise follows from the rest."""
    forms = OBJECTIVES[objective.kind].forms
    return key == "form" and len(forms) > 1 and value in forms


def _labels_wished(objective: ObjectivePart) -> int:
    """Number of labels to assume before the data are known; 0 for objectives of tokens."""
    return _WISHED_LABELS if OBJECTIVES[objective.kind].labels else 0


def _without_hidden(watch: Watch) -> Watch:
    """A watched text without hidden words: a label model fills in none."""
    return replace(watch, text=_HIDDEN.sub("", watch.text).strip() or watch.text)


def _label_faults(recipe: Recipe) -> Iterator[_Fault]:
    """Key, value and expected value, if only one of data and objective is about labels."""
    kind, data = recipe.objective.kind, recipe.data.kind
    own = OBJECTIVES[kind]
    if data == "task" or data in own.data:
        return
    for reader in OBJECTIVES.values():
        if data in reader.data and reader.labels:
            yield "objective.kind", kind, f'"{reader.name}", since data.kind is "{data}"'
    if own.labels:
        told = ", ".join(f'"{one}"' for one in own.data)
        yield "data.kind", data, f'{told} or "task", since objective.kind is "{kind}"'


def _data_and_objectives() -> str:
    """Allowed pairs of data and objectives, in words."""
    told = []
    for kind in dict.fromkeys(kind for one in OBJECTIVES.values() for kind in one.data):
        names = [f'"{one.name}"' for one in OBJECTIVES.values() if kind in one.data]
        told.append(f'"{kind}" with {listed(names, "or")}')
    return ", ".join(told)
