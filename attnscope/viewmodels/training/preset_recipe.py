"""A model of the literature put into the recipe: into a text that suits it, or a new one around it.

Must not import Qt.
"""

from attnscope.records.plans import PresetRow
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
