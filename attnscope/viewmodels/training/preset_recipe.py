"""Recipes made from a model: of one of the literature, put into a text that suits it or a new one around it;
and one that goes on from the open model, on data of the person's own. Must not import Qt.
"""

import json

from attnscope.records.models import ModelInfo
from attnscope.records.plans import PresetRow
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.viewmodels.training.recipe_text import recipe_value, with_model, with_written_value
from attnscope.viewmodels.training.state import TrainingState

_RATES = ((200e6, "6e-4"), (500e6, "3e-4"), (1e9, "2.5e-4"), (float("inf"), "2e-4"))
"""Learning rates up to a number of parameters: Brown et al. 2020, table 2.1."""
_MASKED_RATE = "1e-4"
"""Devlin et al. 2018, appendix A.2."""


def take_preset(state: TrainingState, row: PresetRow) -> None:
    """Put a preset into the recipe being edited; a new recipe goes into a run folder of its own."""
    text = state.recipe.text
    if is_fitting(text, row):
        state.recipe.edit(with_preset(text, row))
        return
    state.take_recipe(new_recipe(row), row.name)
    if state.place.holds_run:
        state.place.take_fresh()


def is_fitting(text: str, row: PresetRow) -> bool:
    """Whether the data of a recipe is of the kind that the preset learns from: texts, not a small task."""
    return recipe_value(text, "data", "kind") in (None, _data_kind(row))


def with_preset(text: str, row: PresetRow) -> str:
    """The text with the preset's [model], objective and vocabulary; everything else as it was."""
    text = with_model(text, row.keys)
    text = with_written_value(text, "objective", "kind", f'"{row.objective}"')
    return with_written_value(text, "tokenizer", "vocab_size", str(row.vocab_size))


def new_recipe(row: PresetRow) -> str:
    """A whole recipe of a preset, which lacks but the path of its data."""
    masked = row.objective == "masked"
    rate = _MASKED_RATE if masked else next(r for most, r in _RATES if row.n_parameters < most)
    keys = "\n".join(f"{key} = {value}" for key, value in row.keys)
    data = "pairs: a source, a tab, its translation" if _data_kind(row) == "pairs" else "text in UTF-8"
    return f"""# {row.name}, a published model. Give it your own data: a file of {data}.

[model]
{keys}

[tokenizer]
kind = "byte-bpe"
vocab_size = {row.vocab_size}

[data]
kind = "{_data_kind(row)}"
path = ""

[objective]
kind = "{row.objective}"

[optimizer]
kind = "adamw"
learning_rate = {rate}
weight_decay = 0.01

[schedule]
kind = "cosine"
warmup_steps = 2000

[training]
n_steps = 100000
batch_size = 8
evaluate_every = 1000
save_every = 5000
seed = 1
name = "{row.name}"
"""


def _data_kind(row: PresetRow) -> str:
    return "pairs" if row.objective == "translation" else "text"


_RATE = "5e-5"
"""The highest of the rates that Devlin et al. 2018, appendix A.3, fine-tune with."""
_WORDS = {
    "text": "text in UTF-8",
    "pairs": "pairs: a source, a tab, its translation",
    "labelled": "a label, a tab and a text in each line",
    "tagged": "word/LABEL pairs, a sentence in each line, or CoNLL-U",
}
_SEGMENTS = [
    "# It reads two texts at once if a tab separates them; trained on single texts it becomes a model of "
    "one text.",
]


def why_not_finetune(model: ModelInfo | None) -> str:
    """Why the open model cannot be trained on texts, in words; empty where it can, as far as is known."""
    if model is None:
        return "Open a model first; then it can be fine-tuned."
    if model.reads != "text":
        return f"{model.name} reads no text. Only models that read text can be fine-tuned."
    return ""


def finetune_recipe(model: ModelInfo) -> str:
    """The recipe, which lacks but the path of its data; a sample of the model is watched."""
    objective = model.objective if model.objective in OBJECTIVES else "masked"
    kind = OBJECTIVES[objective].data[0]
    name = " ".join(model.name.split())
    lines = [
        f"# Fine-tuning {name}. Give it your own data: a file of {_WORDS[kind]}.",
        "# To predict labels instead, write classification under [objective] and labelled under [data]:",
        f"# {_WORDS['labelled']}. For labels of words: labels and tagged, {_WORDS['tagged']}.",
        *_SEGMENTS * model.reads_pairs,
        "",
        "[start]",
        f"from = {_quoted(model.source)}",
        "layer_decay = 0.95",
        "",
        "[data]",
        f'kind = "{kind}"',
        'path = ""',
        "",
        "[objective]",
        f'kind = "{objective}"',
        "",
        "[optimizer]",
        'kind = "adamw"',
        f"learning_rate = {_RATE}",
        "weight_decay = 0.01",
        "",
        "[schedule]",
        'kind = "linear"',
        "warmup_steps = 100",
        "",
        "[training]",
        "n_steps = 1000",
        "batch_size = 16",
        "evaluate_every = 100",
        "save_every = 200",
        "seed = 1",
        f"name = {_quoted(finetune_name(model))}",
    ]
    for sample in model.samples[:1]:
        lines += ["", "[[watch]]", f"text = {_quoted(sample.text)}"]
        lines += [f"target = {_quoted(sample.target)}"] if sample.target else []
    return "\n".join(lines) + "\n"


def finetune_name(model: ModelInfo) -> str:
    """What the run is called."""
    return f"{model.name}-further"


def _quoted(text: str) -> str:
    """The text as a TOML string, which is one of JSON but for one letter that TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
