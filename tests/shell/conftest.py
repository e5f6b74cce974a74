"""A tiny random model in a folder."""

import pytest

from attnscope.models import ModelCard, write_model_folder
from attnscope.nn import ModelConfig, build_transformer
from attnscope.text import train_tokenizer

WORDS = ("the cat sat on the mat", "le chat est sur le tapis", "the european economic area")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny translation model: three stacks of two layers of two heads."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = train_tokenizer("words", WORDS, vocab_size=100)
    config = ModelConfig(
        form="encoder-decoder",
        vocab_size=tokenizer.vocab_size,
        d_model=16,
        n_layers=2,
        n_heads=2,
        d_ff=32,
        max_tokens=24,
    )
    card = ModelCard(name="tiny", objective="translation")
    write_model_folder(folder, build_transformer(config, seed=0), config, tokenizer, card)
    return str(folder)
