"""Keeps finished runs among those that the program shows before one is begun (resources/films).

Run from the repository's root with run folders, each named after the recipe it is of:
python packaging/keep_run.py RUN [RUN …] [--looks 0,50,150] [--without-model]
Of a run stay the recipe, the numbers, the watched sentences at every step or at those of --looks, and the
last model, its weights rounded to float16: enough to replay it, to open it in Explore and to ask about it,
not to go on training. Of one that learned a prompt or low-rank changes of a model that comes with the program
stays what differs from that, not rounded.
"""

import argparse
import dataclasses
import shutil
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, not an installed copy

from attnscope.files import replace_file
from attnscope.models import demo_models, load, write_model_folder
from attnscope.models.checkpoint import STATE
from attnscope.paths import resources_folder
from attnscope.training.recipe import parse_recipe
from attnscope.training.saving import load_state
from attnscope.training.techniques import low_rank_changes


def keep(run: Path, kept: Path, *, looks: str, has_model: bool) -> None:
    """Put a run in the place of the one kept before."""
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for name in ("recipe.toml", "inspections.jsonl"):
        if (run / name).exists():
            shutil.copy(run / name, kept / name)
    numbers = (run / "metrics.jsonl").read_text(encoding="utf-8")
    replace_file(kept / "metrics.jsonl", numbers.replace(str(run), run.name).encode())
    (kept / "probes").mkdir()
    for look in (run / "probes").iterdir():
        if not looks or look.stem in looks.split(","):
            shutil.copy(look, kept / "probes" / look.name)
    if not has_model:
        return
    last = max((run / "checkpoints").iterdir(), key=lambda folder: int(folder.name))
    keep_model(run, last, kept / "checkpoints" / last.name)


def keep_model(run: Path, last: Path, kept: Path) -> None:
    """Write the model of a run's last checkpoint as it is kept."""
    own = load(last).own
    start = parse_recipe((run / "recipe.toml").read_text(encoding="utf-8")).start
    if start.source in demo_models() and (start.lora_rank or start.prompt_tokens):
        changes = low_rank_changes(load_state(last / STATE)[1], start)
        write_model_folder(
            kept, own.module, own.config, own.vocabulary, own.card, base=start.source, changes=changes
        )
        return
    card = dataclasses.replace(own.card, training={**own.card.training, "stored_as": "float16"})
    write_model_folder(kept, own.module, own.config, own.vocabulary, card, dtype=torch.float16)


parser = argparse.ArgumentParser()
parser.add_argument("runs", nargs="+", type=Path)
parser.add_argument("--looks", default="")
parser.add_argument("--without-model", action="store_true")
given = parser.parse_args()
for folder in given.runs:
    place = resources_folder() / "films" / folder.name
    keep(folder, place, looks=given.looks, has_model=not given.without_model)
