"""Training as a generator of events, from a recipe in TOML into a run folder.

for event in train("recipe.toml", out="runs/first"): ...
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from attnscope.errors import LoadError
from attnscope.records.training import TrainingEvent
from attnscope.training.loop import TrainingRun
from attnscope.training.recipe import Recipe, parse_recipe, write_recipe
from attnscope.training.run import RunRecord, read_run

__all__ = [
    "Recipe",
    "RunRecord",
    "TrainingRun",
    "parse_recipe",
    "read_recipe",
    "read_run",
    "train",
    "write_recipe",
]


def read_recipe(recipe: str | Path, overrides: Mapping[str, str] | None = None) -> Recipe:
    """The recipe in a file, or in a text (anything with a line break or a heading)."""
    if isinstance(recipe, str) and ("\n" in recipe or recipe.lstrip().startswith("[")):
        return parse_recipe(recipe, overrides=overrides)
    path = Path(recipe)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise LoadError(
            f"The recipe {path} cannot be read: {getattr(error, 'strerror', None) or error}.",
            kind="recipe",
            expected="a TOML file in UTF-8",
            action="Check its name, or choose a recipe of resources/recipes.",
        ) from error
    return parse_recipe(text, overrides=overrides, base_folder=path.parent)


def train(
    recipe: str | Path,
    out: str | Path,
    device: str = "auto",
    overrides: Mapping[str, str] | None = None,
) -> Iterator[TrainingEvent]:
    """Train a recipe (a file, or its text) into the run folder `out`; resumes the run that it holds."""
    yield from TrainingRun(read_recipe(recipe, overrides), Path(out), device).events()
