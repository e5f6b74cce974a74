"""Tiny recipes for the tests of training."""

from pathlib import Path

import pytest

TEXT = (
    """First Citizen:
Before we proceed any further, hear me speak.

All:
Speak, speak.
"""
    * 12
)

TINY = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 16

[tokenizer]
kind = "byte-bpe"
vocab_size = 300

[data]
kind = "text"
path = "text.txt"

[objective]
kind = "causal"

[schedule]
kind = "linear"
warmup_steps = 2

[training]
n_steps = 6
batch_size = 4
seed = 3
evaluate_every = 3
evaluation_batches = 2
save_every = 100
"""

TASK = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 16
dropout = 0.2

[data]
kind = "task"
task = "reverse"
max_words = 6
n_examples = 50

[objective]
kind = "translation"

[training]
n_steps = 6
batch_size = 4
seed = 3
save_every = 100
"""


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    """A small play."""
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def tiny_recipe(text_file: Path) -> str:
    """A causal recipe on the small play."""
    return TINY.replace("text.txt", str(text_file))


@pytest.fixture
def task_recipe() -> str:
    """A translation recipe with dropout."""
    return TASK
