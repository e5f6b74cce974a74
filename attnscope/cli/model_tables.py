"""A model in lines and tables of text: its facts, sites, choices and cost.

The models of the literature by their names on the command line: what one is, and a recipe of it. And what a
recipe costs before anything is allocated.
"""

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnscope.cli.terminal import in_columns, one_line, say, say_json
from attnscope.counting import bytes_text
from attnscope.errors import LoadError
from attnscope.nn.config_checks import OF_TRANSFORMERS
from attnscope.outside import open_outside
from attnscope.records.models import ModelInfo
from attnscope.records.sites import Site
from attnscope.schemes.masks import MASKS
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.norms import NORMS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.residuals import RESIDUALS
from attnscope.schemes.scores import SCORES

if TYPE_CHECKING:
    from attnscope.models.cost import Cost
    from attnscope.records.plans import Plan, PresetRow
    from attnscope.training import Recipe

_CARD_LETTERS = 1_000_000
_WHERE_THERE = (
    "n_projected",
    "shared_layers",
    "n_experts",
    "span_limit",
    "span_penalty",
    "copies_source",
    "memory_tokens",
    "opening",
    "closing",
)
"""Choices that say nothing where they are 0 or false."""
_SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "mixer": MIXERS, "score": SCORES, "position": POSITIONS, "mask": MASKS, "norm": NORMS,
    "residual": RESIDUALS,
}  # fmt: skip
_ONLY_WITH: Mapping[str, dict[str, tuple[str, ...]]] = {
    "sentence_ends": {"pooling": ("hierarchical",)},
    "sentence_encoder": {"pooling": ("hierarchical",)},
    "slot_kind": {"slot_kind": ("inducing", "latents")},
}
_OF_LABELS = ("n_labels", "pooling", "reads_pair", "sentence_ends", "sentence_encoder")
_OF_CELLS = ("has_attention", "feeds_context", "local_reach")
_OF_PIECES = ("tie_embeddings", "transform_head", "output_bias", "has_pooler", "has_next_sentence")


def facts(info: ModelInfo, start: str = "") -> str:
    """The model in lines of name and value; `start` is the model that training started from."""
    rows = {
        "name": info.name,
        "source": info.source,
        "form": ", ".join(filter(None, (info.form, info.objective, info.architecture, _cells(info)))),
        "parameters": f"{info.n_parameters:,}",
        "tokens": f"at most {info.max_tokens}, {info.vocab_size:,} pieces ({info.tokenizer})",
        "continues from": start,
        "reads": reads(info),
        "labels": ", ".join(info.labels),
        "device": info.device,
        "weights": f"SHA-256 {info.sha256}" if info.sha256 else "",
        "licence": info.licence or licence_in_card(Path(info.source)) or "not named in its files",
        "note": info.note,
    }
    return "\n".join(f"{name:<15}{one_line(value)}" for name, value in rows.items() if value)


def _cells(info: ModelInfo) -> str:
    return f"recurrent cells ({info.body})" if info.body else ""


def licence_in_card(folder: Path) -> str:
    """The paragraph on the licence in a model folder's own card; empty if there is none."""
    card = folder / "card.md"
    try:
        with open_outside(card, expected="a card") as stream:
            text = stream.read(_CARD_LETTERS).decode(errors="replace")
    except (OSError, LoadError):
        return ""
    heading, _, rest = text.partition("## Data and licence")
    return rest.strip().split("\n\n")[0][:400] if heading != text else ""


def reads(info: ModelInfo) -> str:
    """Inputs and outputs of the model, in words."""
    if info.reads != "text":
        own = ", and a second text that it can write itself" if info.takes_target else ""
        size = f", {info.picture_words}" if info.picture_words else ""
        return f"a {info.reads}, named by its path{size}{own}"
    if info.reads_pairs:
        return "two sentences" if info.labels else "one text, or two sentences"
    return "a text, and a second one that it can write itself" if info.takes_target else "one text"


_OF_EXPERTS = frozenset({"experts_per_token", "capacity_factor", "balance_weight"})


def matters(name: str, choices: Mapping[str, object]) -> bool:
    """Whether a value of the architecture has an effect given the other choices."""
    is_recurrent = choices.get("body") in ("rnn", "gru", "lstm")
    if name in (OF_TRANSFORMERS if is_recurrent else _OF_CELLS):
        return False
    if name in (_OF_PIECES if choices.get("n_labels") else _OF_LABELS):
        return False
    if name in _OF_EXPERTS and not choices.get("n_experts"):
        return False
    if (name, choices[name]) in (("mixer", "attention"), ("residual", "plain")):
        return False
    if name in ("span_kind", "span_ramp", "span_start"):
        return bool(choices.get("span_limit"))
    needed = _only_with(name)
    if not needed:
        return name not in _WHERE_THERE or bool(choices[name])
    return any(choices.get(other, values[0]) in values for other, values in needed.items())


def _only_with(name: str) -> dict[str, tuple[str, ...]]:
    """The choices that a choice depends on, and the values for which it has an effect; empty for most."""
    needing = {
        other: tuple(scheme.name for scheme in schemes.values() if name in scheme.choices)
        for other, schemes in _SCHEMES.items()
    }
    return {other: values for other, values in needing.items() if values} or _ONLY_WITH.get(name, {})


def formulas(choices: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """Formula and source of each part of one of our models, by key, if it has an effect."""
    found = {
        key: schemes[str(choices[key])]
        for key, schemes in _SCHEMES.items()
        if choices.get(key) in schemes and matters(key, choices)
    }
    told = {key: one for key, one in found.items() if hasattr(one, "formula")}
    return {key: {"formula": one.formula, "source": one.source} for key, one in told.items()}


def formulas_table(choices: Mapping[str, object]) -> str:
    said = {key: (one["formula"], one["source"]) for key, one in formulas(choices).items()}
    rows = ((key, formula + (f" ({source})" if source else "")) for key, (formula, source) in said.items())
    return table("formulas", tuple(rows))


def cost_text(cost: "Cost", formula: str, *, max_tokens: int = 0) -> str:
    """The operations on paper, with the formula; a note if they exceed the model's limit."""
    is_more = 0 < max_tokens < cost.n_tokens
    note = f"{cost.n_tokens:,} tokens are more than the {max_tokens:,} that the model was made for"
    title = f"operations on paper, {cost.n_tokens:,} tokens" + ("" if cost.is_whole else " (not all of them)")
    rows = (
        *((name, f"{n:.4g}") for name, n in cost.parts),
        ("forward pass", f"{cost.forward:.4g}"),
        ("a token", f"{cost.forward_a_token:.4g} forward, {cost.training_a_token:.4g} in training"),
        ("formula", formula),
        *((("note", note),) if is_more else ()),
    )
    return table(title, rows)


def sites_table(sites: tuple[Site, ...]) -> str:
    """Every site with its heads; equal layers of a stack share a line."""
    if not sites:
        return "sites\n  none: the model has no head"
    rows: list[tuple[str, str]] = []
    start = 0
    for k, site in enumerate(sites):
        following = sites[k + 1] if k + 1 < len(sites) else None
        is_alike = following is not None and _shape(following) == _shape(site)
        if is_alike and following is not None and following.layer == site.layer + 1:
            continue
        first = sites[start]
        layers = f"L{site.layer}" if first.layer == site.layer else f"L{first.layer} to L{site.layer}"
        heads = f"{site.n_heads} heads" if site.n_heads != 1 else "1 head"
        heads += f", on {site.n_slots} slots" if site.keys == "slots" else ""
        heads += ", on sentences" if site.keys == "sentences" else ""
        shared = f", {site.n_kv_heads} key-value heads" if site.n_kv_heads != site.n_heads else ""
        once = f", once {', '.join(f'H{h}' for h in site.former)}" if site.former else ""
        rows.append((f"{site.stack} {layers}", heads + shared + once))
        start = k + 1
    return table("sites", tuple(rows))


def _shape(site: Site) -> tuple[str, int, int, tuple[int, ...]]:
    return site.stack, site.n_heads, site.n_kv_heads, site.former


def table(title: str, rows: tuple[tuple[str, str], ...]) -> str:
    """A title and lines of name and value; empty without rows."""
    if not rows:
        return ""
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join([title, *(f"  {one_line(name):<{width}}{one_line(value)}" for name, value in rows)])


def preset_row(name: str) -> "PresetRow | None":
    """The preset of that name; None if there is none, or a file or folder has that name."""
    from attnscope.nn import PRESETS

    if name not in PRESETS or Path(name).exists():
        return None
    from attnscope.training.paper import preset_rows

    return next(row for row in preset_rows() if row.name == name)


def recipe_of(name: str) -> str:
    """Argument for `read_recipe`: the text of a preset's recipe, or the word itself."""
    from attnscope.viewmodels.training.recipe_text import new_recipe

    row = preset_row(name)
    return name if row is None else new_recipe(row)


def tell_preset(row: "PresetRow", arguments: argparse.Namespace) -> int:
    """Print the configuration of a preset and its cost on paper; nothing is allocated."""
    from attnscope.models import own_cost
    from attnscope.models.cost import FORMULA
    from attnscope.nn import PRESETS, count_parameters
    from attnscope.viewmodels.training.planning import published_words

    config = PRESETS[row.name]
    cost, parts = own_cost(config, arguments.tokens or config.max_tokens), count_parameters(config).parts
    choices = config.to_dict()
    if arguments.json:
        operations = {"n_tokens": cost.n_tokens, "forward": cost.forward, "parts": dict(cost.parts)}
        more = {
            "architecture_table": choices,
            "formulas": formulas(choices),
            "parts": dict(parts),
            "operations": operations,
        }
        say_json({**preset_values(row), **more})
        return 0
    rows = {
        "name": row.name,
        "source": "a published configuration, without weights",
        "form": f"{config.form}, {row.objective}",
        "parameters": f"{row.n_parameters:,}",
        "published": f"{row.published.parameters}. {published_words(row)}",
        "data": row.published.data,
        "hardware": row.published.hardware or "not published",
        "tokens": f"at most {row.n_tokens:,}, {row.vocab_size:,} pieces",
        "to train": f"{bytes_text(row.least_bytes)} of memory with one such text at a time",
        "more": f"attnscope train {row.name} --plan",
    }
    blocks = (
        "\n".join(f"{name:<14}{value}" for name, value in rows.items()),
        table("architecture", tuple((n, str(v)) for n, v in choices.items() if matters(n, choices))),
        formulas_table(choices),
        table("parameters", (*((n, f"{k:,}") for n, k in parts), ("total", f"{row.n_parameters:,}"))),
        cost_text(cost, FORMULA, max_tokens=config.max_tokens),
    )
    say("\n\n".join(blocks))
    return 0


# What a recipe costs before anything is allocated.


def tell_plan(recipe: "Recipe", *, out: str = "", device: str = "auto", is_json: bool = False) -> int:
    """Print the plan; returns 0 if it fits and 2 if it does not."""
    from attnscope.nn.machine import choose_device
    from attnscope.settings import known_run_folders
    from attnscope.training.paper import plan_recipe
    from attnscope.training.speed import pace_of
    from attnscope.training.starting import recipe_on_paper

    recipe, where = recipe_on_paper(recipe), choose_device(device)
    folders = map(Path, known_run_folders(out))
    plan = plan_recipe(
        recipe, where, out=Path(out) if out else Path.cwd(), pace=pace_of(recipe, where, folders)
    )
    if is_json:
        say_json(plan_values(plan))
    else:
        say(plan_text(plan))
    return 0 if plan.fits else 2


def plan_values(plan: "Plan") -> dict[str, object]:
    low, expected, high = plan.seconds or (None, None, None)
    return {
        **dataclasses.asdict(plan),
        "parameters": dict(plan.parameters),
        "memory": dict(plan.memory),
        "memory_bytes": plan.memory_bytes,
        "fits": plan.fits,
        "flops": plan.flops,
        "seconds": {"shortest": low, "expected": expected, "longest": high},
    }


def plan_text(plan: "Plan") -> str:
    from attnscope.viewmodels.training.planning import (
        disk_rows,
        memory_rows,
        plan_summary,
        problem_of,
        size_rows,
        work_rows,
    )

    blocks = [
        f"{one_line(plan.name)}: {plan_summary(plan)}",
        table("parameters", size_rows(plan)),
        table("memory", memory_rows(plan)),
        table("work", work_rows(plan)),
        table("disk", disk_rows(plan)),
    ]
    if plan.pace is not None:
        blocks.append(f"The time is {plan.pace.words}.")
    blocks += plan.notes
    if problem_of(plan):
        blocks.append(problem_of(plan))
    return "\n\n".join(blocks)


def tell_presets(*, is_json: bool = False) -> int:
    """Print the models of the literature as a table."""
    from attnscope.training.paper import preset_rows
    from attnscope.viewmodels.training.planning import PRESET_COLUMNS, WORD_COLUMNS, preset_row_cells

    rows = preset_rows()
    if is_json:
        say_json([preset_values(row) for row in rows])
    else:
        say(in_columns([PRESET_COLUMNS, *map(preset_row_cells, rows)], left=WORD_COLUMNS))
        say("Operations are of the forward pass at the longest text; memory is with one such text at a time.")
    return 0


def preset_values(row: "PresetRow") -> dict[str, object]:
    return {**dataclasses.asdict(row), "keys": dict(row.keys), "least_bytes": row.least_bytes}
