"""A recipe that goes on from the open model: its weights, shape and tokenizer, on data of the person's own.

Must not import Qt.
"""

import json

from attnscope.records.models import ModelInfo
from attnscope.schemes.objectives import OBJECTIVES

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


def why_not_further(model: ModelInfo | None) -> str:
    """Why the open model cannot be trained on texts, in words; empty where it can, as far as is known."""
    if model is None:
        return "Open a model first; then it can be fine-tuned."
    if model.reads != "text":
        return f"{model.name} reads no text. Only models that read text can be fine-tuned."
    return ""


def further_recipe(model: ModelInfo) -> str:
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
        f"name = {_quoted(further_name(model))}",
    ]
    for sample in model.samples[:1]:
        lines += ["", "[[watch]]", f"text = {_quoted(sample.text)}"]
        lines += [f"target = {_quoted(sample.target)}"] if sample.target else []
    return "\n".join(lines) + "\n"


def further_name(model: ModelInfo) -> str:
    """What the run is called."""
    return f"{model.name}-further"


def _quoted(text: str) -> str:
    """The text as a TOML string, which is one of JSON but for one letter that TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
