"""Which batches an objective makes of running text, and what it asks of the tokenizer."""

from attnscope.counting import counted
from attnscope.errors import RecipeError
from attnscope.text.tokenizer import Tokenizer
from attnscope.training.batches import BatchMaker, Ids, TextBatches, Vocabulary
from attnscope.training.pair_batches import PairBatches
from attnscope.training.parts import Recipe
from attnscope.training.span_batches import SpanBatches, count_spans

_LEAST = 8


def with_sentinels(recipe: Recipe, tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer as span corruption needs it; one that has sentinels already is left as it is.

    As many are added as the longest text of the recipe can have spans. Raises RecipeError for the
    tokenizer of a model that is gone on from and never had any: its embedding has no rows for them.
    """
    if recipe.objective.kind != "span-corruption":
        return tokenizer
    objective = recipe.objective
    _, n_spans = count_spans(recipe.model.max_tokens, objective.corrupted_share, objective.mean_span)
    if not tokenizer.sentinel_ids and not recipe.start.source:
        return tokenizer.with_sentinels(n_spans)
    if len(tokenizer.sentinel_ids) < n_spans:
        raise RecipeError(
            f"The tokenizer has {len(tokenizer.sentinel_ids)} sentinels for hidden spans.",
            expected=f"{n_spans}, one for each span of {recipe.model.max_tokens} tokens",
            action="Start from a model trained with span corruption, make objective.mean_span larger or "
            "model.max_tokens smaller.",
        )
    return tokenizer


def text_batches(
    recipe: Recipe, tokenizer: Tokenizer, vocabulary: Vocabulary, training: Ids, held_out: Ids
) -> BatchMaker:
    """The batches of a recipe that reads running text; raises RecipeError when there is too little."""
    objective, n_tokens, batch_size = recipe.objective, recipe.model.max_tokens, recipe.training.batch_size
    n_evaluation = recipe.training.evaluation_batches
    is_of_stretches = objective.kind == "span-corruption" or objective.next_sentence
    if is_of_stretches and len(training) < _LEAST:
        raise RecipeError(
            f"{recipe.data.path} has only {counted(len(training), 'token')} to train on.",
            expected=f"at least {_LEAST}, better many thousands",
            action="Choose a longer text, or a smaller data.validation_share.",
        )
    if objective.kind == "span-corruption":
        return SpanBatches(
            training=training,
            held_out=held_out,
            vocabulary=vocabulary,
            sentinels=tokenizer.sentinel_ids,
            n_tokens=n_tokens,
            batch_size=batch_size,
            corrupted_share=objective.corrupted_share,
            mean_span=objective.mean_span,
            n_evaluation=n_evaluation,
        )
    if objective.next_sentence:
        return PairBatches(
            training=training,
            held_out=held_out,
            vocabulary=vocabulary,
            n_tokens=n_tokens,
            batch_size=batch_size,
            mask_share=objective.mask_share,
            n_evaluation=n_evaluation,
        )
    return TextBatches(
        training=training,
        held_out=held_out,
        vocabulary=vocabulary,
        n_tokens=n_tokens,
        batch_size=batch_size,
        mask_share=objective.mask_share if objective.kind == "masked" else None,
        repeated_share=recipe.data.repeated_share,
        n_evaluation=n_evaluation,
    )
