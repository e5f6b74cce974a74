"""What would make a recipe fit the memory: one value changed, as little as is needed, each tried on paper."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from attnscope.counting import counted
from attnscope.errors import UserError
from attnscope.records.plans import Advice
from attnscope.training.paper import longest_tokens, needed_bytes, with_training
from attnscope.training.recipe import Recipe

_MOST_ADVICE = 3


def advise(recipe: Recipe, device: torch.device, available_bytes: int) -> tuple[Advice, ...]:
    """Changes that each make the recipe fit `available_bytes`, the mildest first; none when it fits."""

    def fits(tried: Recipe) -> bool:
        try:
            return needed_bytes(tried, device, longest_tokens(tried)) <= available_bytes
        except UserError:
            return False

    if fits(recipe):
        return ()
    found = list(islice(_changes(recipe, fits), _MOST_ADVICE))
    return tuple(found or islice(_changes_of_smallest(recipe, fits), _MOST_ADVICE))


def _changes_of_smallest(recipe: Recipe, fits: Callable[[Recipe], bool]) -> Iterator[Advice]:
    """Where no value alone helps: a smaller model, read one text at a time."""
    n_parts = min(4096, recipe.training.batch_size * recipe.training.accumulate)
    also = (("training.batch_size", "1"), ("training.accumulate", str(n_parts)))
    smallest = with_training(recipe, batch_size=1, accumulate=n_parts)
    for advice in _smaller_model(smallest, fits):
        words = f"{advice.words}, one text at a time"
        yield Advice(words=words, changes=(*also, *advice.changes))


def _changes(recipe: Recipe, fits: Callable[[Recipe], bool]) -> Iterator[Advice]:
    yield from _smaller_batch(recipe, fits)
    if not recipe.training.checkpointing:
        again = replace(recipe, training=replace(recipe.training, checkpointing=True))
        if fits(again):
            yield Advice(
                words="Blocks computed again (a third slower)",
                changes=(("training.checkpointing", "true"),),
            )
        else:
            yield from _smaller_batch(again, fits, also=(("training.checkpointing", "true"),))
    yield from _smaller_model(recipe, fits)


def _smaller_batch(
    recipe: Recipe, fits: Callable[[Recipe], bool], also: tuple[tuple[str, str], ...] = ()
) -> Iterator[Advice]:
    """The largest batch that fits, in as many parts as make the same whole."""
    size = recipe.training.batch_size
    best = _largest(1, size - 1, lambda n: fits(with_training(recipe, batch_size=n)))
    if best is None:
        return
    n_parts = -(-size * recipe.training.accumulate // best)
    best = max(1, round(size * recipe.training.accumulate / n_parts))
    n_parts = min(4096, n_parts)
    again = " and blocks computed again" if also else ""
    yield Advice(
        words=f"{counted(best, 'text')} at a time, {n_parts} times a step{again}",
        changes=(*also, ("training.batch_size", str(best)), ("training.accumulate", str(n_parts))),
    )


def _smaller_model(recipe: Recipe, fits: Callable[[Recipe], bool]) -> Iterator[Advice]:
    model = recipe.model
    if recipe.start.source:
        return  # its sizes are those of the model it goes on from

    def changed(**values: Any) -> Recipe:
        return replace(recipe, model=replace(model, **values))

    n_layers = _largest(1, model.n_layers - 1, lambda n: fits(changed(n_layers=n)))
    if n_layers is not None:
        yield Advice(
            words=f"{counted(n_layers, 'layer')} instead of {model.n_layers}",
            changes=(("model.n_layers", str(n_layers)),),
        )
    unit = 2 * model.n_heads  # heads of an even width, which rotary positions need
    width = _largest(1, (model.d_model - 1) // unit, lambda n: fits(changed(d_model=n * unit)))
    if width is not None:
        yield Advice(
            words=f"d_model {width * unit} instead of {model.d_model}",
            changes=(("model.d_model", str(width * unit)),),
        )
    n_tokens = _largest(16, model.max_tokens - 1, lambda n: fits(changed(max_tokens=n)))
    if n_tokens is not None:
        yield Advice(
            words=f"Texts of {n_tokens} tokens instead of {model.max_tokens}",
            changes=(("model.max_tokens", str(n_tokens)),),
        )


def _largest(low: int, high: int, is_good: Callable[[int], bool]) -> int | None:
    """The largest number of a range that is good, by halving; None when none is."""
    if high < low or not is_good(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if is_good(middle):
            low = middle
        else:
            high = middle - 1
    return low
