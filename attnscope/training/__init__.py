"""Training as a generator of events, from a recipe in TOML into a run folder.

for event in train("recipe.toml", out="runs/first"): ...
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from attnscope.counting import shell_line
from attnscope.doors import door_of
from attnscope.errors import LoadError, meant
from attnscope.outside import parse_toml, read_toml_text
from attnscope.paths import resources_folder
from attnscope.records.runs import TrainingEvent
from attnscope.training.loop import TrainingRun
from attnscope.training.parts import mended_recipe
from attnscope.training.recipe import Recipe, parse_recipe
from attnscope.training.run import RunFolder

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.training.batches import *
    from attnscope.training.beginning import begin, first_batch
    from attnscope.training.data import prepare, vocabulary_of, word_ids
    from attnscope.training.descent import *
    from attnscope.training.distributed import ALONE, Ranks, SharedLoss, joined, ranks_of, rows_of
    from attnscope.training.loop import free_memory
    from attnscope.training.objectives import *
    from attnscope.training.optimizers import *
    from attnscope.training.paper import *
    from attnscope.training.parts import *
    from attnscope.training.recipe import differences, tables_of, write_recipe
    from attnscope.training.run import *
    from attnscope.training.saving import ResumeState, card_of, length_note, load_state, save_state
    from attnscope.training.speed import *
    from attnscope.training.starting import *
    from attnscope.training.summaries import *
    from attnscope.training.techniques import *
    from attnscope.training.text_batches import *
else:
    __getattr__, __dir__ = door_of(__name__)


def read_recipe(
    recipe: str | Path, overrides: Mapping[str, str] | None = None, *, needs_data: bool = True
) -> Recipe:
    """Read a recipe from a file, by the name of a bundled one, or from a text (anything with a line break or
    a heading). Its data.path may be empty only if no data is needed.
    """
    if isinstance(recipe, str) and ("\n" in recipe or recipe.lstrip().startswith("[")):
        return parse_recipe(recipe, overrides=overrides, needs_data=needs_data)
    path = find_recipe(recipe)
    try:
        text = read_toml_text(path, what=f"The recipe {path}")
        if path.suffix != ".toml":
            _require_toml(text, path)
    except LoadError as error:
        raise LoadError(
            error.happened, kind="recipe", expected="a TOML file in UTF-8", action=_instead_of(path)
        ) from error
    if RunFolder(path.parent).metrics.is_file():
        text, _ = mended_recipe(text)  # the run says so when it goes on
    return parse_recipe(text, overrides=overrides, base_folder=path.parent, needs_data=needs_data)


def _require_toml(text: str, path: Path) -> None:
    try:
        parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise LoadError(f"{path} is not a recipe: it is not TOML.", kind="recipe") from error


def _instead_of(path: Path) -> str:
    """Advice for a path that is not a recipe: resume a run, or use a text as the data of a recipe."""
    is_there = os.path.exists(path)
    if is_there and RunFolder(path).holds_run:
        return f"To go on with the run in it: attnscope train --resume {shell_line([str(path)])}."
    if is_there and path.suffix != ".toml":
        words = shell_line(
            ["attnscope", "train", "shakespeare", "--set", f"data.path={path}", "--out", "run"]
        )
        return f"To train on your own text, name it as the data of a recipe, for instance: {words}."
    known = built_in_recipes()
    return f"{meant(path.stem, known)}Check its name, or use a built-in one: {', '.join(known)}."


def built_in_recipes() -> tuple[str, ...]:
    """The names of the bundled recipes."""
    return tuple(sorted(path.stem for path in (resources_folder() / "recipes").glob("*.toml")))


def find_recipe(recipe: str | Path) -> Path:
    """The file of a recipe: a path, or the name of a bundled recipe."""
    path = Path(recipe)
    built_in = resources_folder() / "recipes" / f"{path.name}.toml"
    is_name = path.suffix == "" and path.name == str(recipe) and not path.exists()
    return built_in if is_name and built_in.is_file() else path


def train(
    recipe: str | Path,
    out: str | Path,
    device: str = "auto",
    overrides: Mapping[str, str] | None = None,
    *,
    may_lengthen: bool = False,
) -> Iterator[TrainingEvent]:
    """Train a recipe (a file, a built-in name, or a text) into the run folder `out`; resumes a run there.

    `overrides` are keys of the recipe with other values, such as {"training.n_steps": "200"}. Yields what
    happens: steps with their loss in nats, evaluations, saves, and the end. With `may_lengthen` the recipe
    may have more steps than the existing run, whatever its schedule. Of the threads that torch may use it
    takes as many as are quickest, as `attnscope train` does; afterwards torch has them all again.
    """
    run = TrainingRun(read_recipe(recipe, overrides), Path(out), device, may_lengthen=may_lengthen)
    if torch.get_num_threads() > 1:
        run.choose_threads()
    yield from run.events()
