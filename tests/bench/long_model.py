"""Decoders with random weights to measure with: a tiny one with room for 32,768 tokens and a text to fill it,
a small one for 128 tokens, and one of GPT-2's shape.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from attnscope.models import ModelCard, write_model_folder
from attnscope.nn import PRESETS, ModelConfig, Transformer, build_transformer
from attnscope.text import train_tokenizer

N_TOKENS = 32_768
_WORDS = (
    "the king of the north came down to the river and saw that the water was high",
    "he spoke to the old man who kept the boat and asked him for the way to the sea",
    "nobody knows what the old man said but the king turned back and was not seen again",
)


def long_text(n_words: int = N_TOKENS) -> str:
    """A text of at least `n_words` words that repeats itself in ever other orders."""
    words = " ".join(_WORDS).split()
    found = [words[(i * 7 + i // 11 + (i * i) // 97) % len(words)] for i in range(n_words)]
    return " ".join(found)


@contextmanager
def long_files(n_layers: int = 2) -> Iterator[tuple[Path, Path]]:
    """The folder of a tiny model for 32,768 tokens, and a text file that fills it."""
    with tempfile.TemporaryDirectory(prefix="attnscope-tiles-") as folder:
        text = Path(folder) / "long.txt"
        text.write_text(long_text(N_TOKENS - 1), encoding="utf-8")
        yield write_long_model(Path(folder) / "model", n_layers=n_layers), text


def write_gpt2_model(folder: Path) -> Transformer:
    """Save a model of GPT-2's shape that reads the same words; returns the network itself."""
    tokenizer = train_tokenizer("words", _WORDS, vocab_size=100)
    config = replace(PRESETS["gpt-2"], dropout=0.0, vocab_size=tokenizer.vocab_size)
    module = build_transformer(config, seed=3).eval()
    write_model_folder(folder, module, config, tokenizer, ModelCard(name="gpt-2-shape", objective="causal"))
    return module


def write_small_model(folder: Path) -> Path:
    """Save a model for 128 tokens of a few letters each, of 0.9 M parameters; returns its folder."""
    tokenizer = train_tokenizer("byte-bpe", _WORDS, vocab_size=512)
    config = ModelConfig(
        form="decoder",
        vocab_size=tokenizer.vocab_size,
        d_model=128,
        n_layers=4,
        n_heads=4,
        d_ff=512,
        max_tokens=128,
        position="rotary",
        rope_base=100.0,
    )
    module = build_transformer(config, seed=3)
    write_model_folder(folder, module, config, tokenizer, ModelCard(name="small", objective="causal"))
    return folder


def write_long_model(folder: Path, *, n_layers: int = 2, n_heads: int = 2, d_model: int = 32) -> Path:
    """Save an untrained model with weights from a fixed seed; returns its folder."""
    tokenizer = train_tokenizer("words", _WORDS, vocab_size=100)
    config = ModelConfig(
        form="decoder",
        vocab_size=tokenizer.vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=2 * d_model,
        max_tokens=N_TOKENS,
        position="rotary",
        rope_base=100_000.0,
    )
    module = build_transformer(config, seed=3)
    for name, parameter in module.named_parameters():
        if name.endswith("qkv.weight"):  # sharper than fresh weights, so that there is something to see
            parameter.data[: 2 * d_model].mul_(4.0)
    write_model_folder(folder, module, config, tokenizer, ModelCard(name="long-text", objective="causal"))
    return folder
