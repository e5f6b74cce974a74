"""Tiny models in folders, and short ways to talk to an engine."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from attnscope.models import ModelCard, write_model_folder
from attnscope.nn import ModelConfig, build_transformer
from attnscope.records import OutputWritten, Reply, Request, Traced
from attnscope.text import train_tokenizer
from attnscope.workers import Engine

WORDS = ("the cat sat on the mat", "le chat est sur le tapis", "a dog and a bird saw the cat")


def save_tiny(folder: Path, form: str, *, seed: int = 0) -> str:
    """Write a tiny random model of a form; returns its folder as text."""
    tokenizer = train_tokenizer("words", WORDS, vocab_size=100)
    config = ModelConfig(
        form=form,  # type: ignore[arg-type]
        vocab_size=tokenizer.vocab_size,
        d_model=16,
        n_layers=2,
        n_heads=2,
        d_ff=32,
        max_tokens=24,
    )
    objective = {"decoder": "causal", "encoder": "masked", "encoder-decoder": "translation"}[form]
    card = ModelCard(name=f"tiny {form}", objective=objective)  # type: ignore[arg-type]
    write_model_folder(folder, build_transformer(config, seed=seed), config, tokenizer, card)
    return str(folder)


def ask(engine: Engine, request: Request) -> list[Reply]:
    """Every reply to one request."""
    return list(engine.handle(request))


def traced_whole(replies: Iterable[Reply]) -> Traced:
    """The trace of its replies, with what the model wrote: in it, or after it."""
    first, *later = replies
    assert isinstance(first, Traced), first
    if not first.comparison.is_writing:
        assert later == []
        return first
    (written,) = later
    assert isinstance(written, OutputWritten), written
    assert written.number == first.number
    assert not written.comparison.is_writing
    return replace(first, comparison=written.comparison)


def train_to_end(engine: Engine, n_most: int = 10_000) -> Iterator[Reply]:
    """The replies of the run in progress until it ends."""
    for _ in range(n_most):
        if not engine.is_training:
            return
        yield from engine.advance_training()
    raise AssertionError("the run did not end")
