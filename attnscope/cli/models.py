"""`attnscope models`: the bundled models, and what each is for."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from attnscope.cli.terminal import say, say_json
from attnscope.counting import bytes_text
from attnscope.kept_models import kept_model, kept_models_folder, kept_names
from attnscope.paths import resources_folder
from attnscope.viewmodels.training.recipe_text import read_recipe_text, words_of_recipe

_SENTENCE_END = re.compile(r"(?<!et al)\. +(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model: what it shows, texts to try, bytes of its weights, and what it `lacks` to be opened.

    `kind` is `model`, or `run` for the last model of a recipe that was trained in advance.
    """

    name: str
    kind: str
    shows: str
    texts: tuple[str, ...] = ()
    n_bytes: int = 0
    lacks: str = ""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "models",
        description="The models that come with the program. Each opens by its name: attnscope open NAME, "
        "or in any command that takes a MODEL.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the models, then those of runs that were kept."""
    rows = [*_models(), *_runs()]
    if arguments.json:
        say_json([asdict(row) for row in rows])
        return 0
    width = max((len(row.name) for row in rows), default=0)
    for kind, heading in (("model", "Models"), ("run", "Models of recipes that were trained in advance")):
        say(f"{heading}:")
        for row in (row for row in rows if row.kind == kind):
            say(f"{row.name:<{width}}  {bytes_text(row.n_bytes):<8}  {row.lacks}".rstrip())
            say(f"    {row.shows}")
        say("")
    say("Open one with: attnscope open NAME. Well-known models to download: attnscope get --list.")
    return 0


def _models() -> Iterator[ModelRow]:
    for name in kept_names():
        kept, folder = kept_model(name), kept_models_folder() / name
        texts = tuple(sample.text for sample in kept.samples)
        size = _weights_in(folder)
        yield ModelRow(name=name, kind="model", shows=kept.shows, texts=texts, n_bytes=size, lacks=kept.lacks)


def _runs() -> Iterator[ModelRow]:
    films = resources_folder() / "films"
    for folder in sorted(films.iterdir()) if films.is_dir() else ():
        checkpoints = folder / "checkpoints"
        if checkpoints.is_dir():
            words = words_of_recipe(read_recipe_text(resources_folder() / "recipes" / f"{folder.name}.toml"))
            shows = _SENTENCE_END.split(words)[0].rstrip(".") + "."
            yield ModelRow(name=folder.name, kind="run", shows=shows, n_bytes=_weights_in(checkpoints))


def _weights_in(folder: Path) -> int:
    """Bytes of the largest weights file there, which is the last model's."""
    return max((path.stat().st_size for path in folder.rglob("*.safetensors")), default=0)
