"""The memory that a plan tells against the most that a process takes, for recipes of every kind."""

import itertools
import json
import subprocess
import sys

import pytest

from attnscope.training import has_bfloat16_products

_MODEL = {"d_model": 128, "n_layers": 2, "n_heads": 4, "d_ff": 512, "max_tokens": 96}
_CELLS = {"d_model": 96, "n_layers": 1, "n_heads": 1, "max_tokens": 24}
_TEXT, _PAIRS = {"kind": "text", "path": "text.txt"}, {"kind": "pairs", "path": "pairs.tsv"}
_LABELLED = {"kind": "labelled", "path": "labelled.tsv"}
_SHAPES = 250 if has_bfloat16_products() else 40
"""Steps until most lengths of rows have come, each of which may need code of its own."""
_RECIPES = {
    "causal": (_MODEL, _TEXT, {"kind": "causal"}, {"batch_size": 48}),
    "causal, large vocabulary": ({**_MODEL, "n_layers": 1}, _TEXT, {"kind": "causal"}, {"batch_size": 24}),
    "causal, weights dropped": (
        {**_MODEL, "dropout": 0.1, "attention_dropout": 0.1},
        _TEXT,
        {"kind": "causal"},
        {"batch_size": 24},
    ),
    "causal, one wide layer": (
        {**_MODEL, "n_layers": 1, "d_model": 512, "d_ff": 2048},
        _TEXT,
        {"kind": "causal"},
        {"batch_size": 4},
    ),
    "masked": ({**_MODEL, "norm_place": "post"}, _TEXT, {"kind": "masked"}, {"batch_size": 64}),
    "computed again": (
        {**_MODEL, "n_layers": 6},
        _TEXT,
        {"kind": "causal"},
        {"batch_size": 24, "checkpointing": True},
    ),
    "translation": (
        {**_MODEL, "max_tokens": 32, "dropout": 0.1},
        {**_PAIRS, "similar_lengths": True},
        {"kind": "translation"},
        {"batch_size": 64},
    ),
    "span corruption": (_MODEL, _TEXT, {"kind": "span-corruption"}, {"batch_size": 16}),
    "classification": (_MODEL, _LABELLED, {"kind": "classification"}, {"batch_size": 32}),
    "classification of pairs": (
        {**_MODEL, "max_tokens": 48, "n_layers": 4, "reads_pair": True, "pooling": "mean"},
        {"kind": "labelled", "path": "two.tsv"},
        {"kind": "classification"},
        {"batch_size": 256},
    ),
    "Bahdanau": (
        {**_CELLS, "body": "gru", "score": "additive"},
        _PAIRS,
        {"kind": "translation"},
        {"batch_size": 48},
    ),
    "Luong": (
        {**_CELLS, "body": "lstm", "score": "general"},
        _PAIRS,
        {"kind": "translation"},
        {"batch_size": 48},
    ),
    "tagging in bfloat16": (
        {"d_model": 64, "n_layers": 2, "n_heads": 4, "d_ff": 128, "max_tokens": 24},
        {"kind": "task", "task": "tagging", "n_examples": 4000},
        {"kind": "labels"},
        {"batch_size": 64, "n_steps": _SHAPES, "evaluate_every": _SHAPES, "precision": "bfloat16"},
    ),
    "in turns": (
        {**_MODEL, "n_layers": 8, "d_ff": 128, "d_model": 64, "max_tokens": 64},
        _TEXT,
        {"kind": "causal"},
        {"batch_size": 256},
    ),
}
_CHILD = """
import json, os, resource, sys
from pathlib import Path
import torch
import torch._dynamo  # by every optimiser, in seconds: here it is done once
from attnscope.training import parse_recipe
from attnscope.training.loop import TrainingRun
from attnscope.training.paper import plan_recipe
torch.set_num_threads(1)
for name, text in json.load(sys.stdin).items():
    if os.fork() == 0:  # each in a process of its own, whose peak begins with what the libraries take
        recipe = parse_recipe(text, base_folder=Path.cwd())
        run = TrainingRun(recipe, Path(name), "cpu")
        list(run.events())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        plan = plan_recipe(recipe, torch.device("cpu"))
        found = {"plan": plan.memory_bytes, "peak": peak}
        Path(name, "found.json").write_text(json.dumps(found))
        os._exit(0)
    os.wait()
"""


def _recipe_text(model: dict, data: dict, objective: dict, training: dict, vocab_size: int) -> str:
    training = {
        "n_steps": 2,
        "evaluate_every": 2,
        "evaluation_batches": 1,
        "precision": "float32",
        **training,
    }
    parts = {"model": model, "data": data, "objective": objective, "training": training}
    parts["tokenizer"] = {"kind": "words", "vocab_size": vocab_size}
    return "\n".join(
        "\n".join([f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in part.items())])
        for name, part in parts.items()
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    folder = tmp_path_factory.mktemp("runs")
    words = [f"w{n % 7919 % 3000}" for n in range(60_000)]
    lines = [" ".join(words[n : n + 5 + n % 25]) for n in range(0, 60_000, 30)]
    (folder / "text.txt").write_text("\n".join(lines))
    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in itertools.pairwise(lines)))
    two = (f"{n % 3}\t{a}\t{b}\n" for n, (a, b) in enumerate(itertools.pairwise(lines)))
    (folder / "two.tsv").write_text("".join(two))
    (folder / "labelled.tsv").write_text("".join(f"{n % 3}\t{line}\n" for n, line in enumerate(lines)))
    texts = {
        name: _recipe_text(*parts, vocab_size=3000 if "large" in name or "translation" in name else 300)
        for name, parts in _RECIPES.items()
    }
    subprocess.run([sys.executable, "-c", _CHILD], cwd=folder, input=json.dumps(texts), text=True, check=True)
    return {name: json.loads((folder / name / "found.json").read_text()) for name in texts}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count the memory of a process differently")
@pytest.mark.parametrize("name", _RECIPES)
def test_that_a_run_takes_no_more_than_planned_and_not_much_less(
    name: str, found: dict[str, dict[str, int]]
) -> None:
    plan, peak = found[name]["plan"], found[name]["peak"]
    assert peak <= plan <= 1.6 * peak, f"{plan / 2**20:,.0f} MiB planned, {peak / 2**20:,.0f} taken"
