"""What a recipe costs before anything is allocated, and the table of presets, as text or JSON."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.terminal import one_line, say, say_json
from attnscope.records.plans import Plan, PresetRow
from attnscope.settings import known_run_folders
from attnscope.viewmodels.training.planning import (
    PRESET_COLUMNS,
    WORD_COLUMNS,
    Row,
    disk_rows,
    memory_rows,
    plan_summary,
    preset_row_cells,
    problem_of,
    size_rows,
    work_rows,
)

if TYPE_CHECKING:
    from attnscope.training import Recipe


def tell_plan(recipe: "Recipe", *, out: str = "", device: str = "auto", is_json: bool = False) -> int:
    """Print the plan; gives 0 when it fits and 2 when it does not."""
    from attnscope.nn.machine import choose_device
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


def plan_values(plan: Plan) -> dict[str, object]:
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


def plan_text(plan: Plan) -> str:
    blocks = [
        f"{one_line(plan.name)}: {plan_summary(plan)}",
        _table("parameters", size_rows(plan)),
        _table("memory", memory_rows(plan)),
        _table("work", work_rows(plan)),
        _table("disk", disk_rows(plan)),
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

    rows = preset_rows()
    if is_json:
        say_json([preset_values(row) for row in rows])
    else:
        say(_columns([PRESET_COLUMNS, *(preset_row_cells(row) for row in rows)]))
        say("Operations are of the forward pass at the longest text; memory is with one such text at a time.")
    return 0


def preset_values(row: PresetRow) -> dict[str, object]:
    return {**dataclasses.asdict(row), "keys": dict(row.keys), "least_bytes": row.least_bytes}


def _table(title: str, rows: Sequence[Row]) -> str:
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join([title, *(f"  {name:<{width}}{value}" for name, value in rows)])


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns; numbers to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k in WORD_COLUMNS else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
