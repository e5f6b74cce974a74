"""The models of the literature by their names on the command line: what one is, and a recipe of it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.model_tables import cost_text, formulas, formulas_table, matters, table
from attnscope.cli.terminal import say, say_json
from attnscope.counting import bytes_text

if TYPE_CHECKING:
    from attnscope.records.plans import PresetRow


def preset_row(name: str) -> "PresetRow | None":
    """The preset that a word means; None for no preset's name, and for a file or folder of that name."""
    from attnscope.nn.presets import PRESETS

    if name not in PRESETS or Path(name).exists():
        return None
    from attnscope.training.preset_rows import preset_rows

    return next(row for row in preset_rows() if row.name == name)


def recipe_of(name: str) -> str:
    """What `read_recipe` is given for a word: the text of a preset's recipe, else the word itself."""
    from attnscope.viewmodels.training.preset_recipe import new_recipe

    row = preset_row(name)
    return name if row is None else new_recipe(row)


def tell_preset(row: "PresetRow", arguments: argparse.Namespace) -> int:
    """Print the configuration of a preset and what it costs on paper; nothing is allocated."""
    from attnscope.cli.plan import preset_values
    from attnscope.models.cost import FORMULA, own_cost
    from attnscope.nn.config import count_parameters
    from attnscope.nn.presets import PRESETS
    from attnscope.viewmodels.training.plan_words import published_words

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
