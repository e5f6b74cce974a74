"""Which choices of a recipe go together, and what an objective asks of the model.

Reads no data and builds no model. Raises RecipeError, naming the key, what it is and what it could be.
"""

from collections.abc import Iterator, Mapping

from attnscope.errors import RecipeError
from attnscope.nn.config import ModelConfig
from attnscope.nn.recurrent_choices import ignored_choices
from attnscope.records.models import Form
from attnscope.records.sites import Stack
from attnscope.schemes.scores import SCORES
from attnscope.training.label_choices import label_faults
from attnscope.training.parts import FORM_OF_OBJECTIVE, GatesPart, ObjectivePart, Recipe

_OF_PAIRS = {"n_segments": 2, "has_pooler": True, "has_next_sentence": True}
_STACKS_OF_FORM: dict[Form, tuple[Stack, ...]] = {
    "encoder": ("encoder",),
    "decoder": ("decoder",),
    "encoder-decoder": ("encoder", "decoder", "cross"),
}
Fault = tuple[str, object, str]
"""The key, the value found, and what was expected."""


def model_of_objective(table: Mapping[str, object], objective: ObjectivePart) -> dict[str, object]:
    """The model section with what next-sentence prediction needs: two segments, a pooler and its head.

    Raises RecipeError where the section says otherwise.
    """
    if not objective.next_sentence or objective.kind != "masked":
        return dict(table)
    for name, value in _OF_PAIRS.items():
        if name in table and table[name] != value:
            raise RecipeError(
                f"model.{name} is {table[name]!r} though objective.next_sentence is true.",
                expected=f"{str(value).lower()}, as two segments of text ask for",
                action=f"Remove model.{name}, or set objective.next_sentence to false.",
            )
    return {**table, **_OF_PAIRS}


def check_choices(recipe: Recipe) -> None:
    """Raise RecipeError for the first choice that does not go with the others."""
    for faults in (_objective_faults, _guide_faults, _body_faults, label_faults, _start_faults, _gate_faults):
        for key, value, expected in faults(recipe):
            raise RecipeError(
                f"{key} is {_shown(value)}.", expected=expected, action="Change it or what it goes with."
            )


def gated_stacks(part: GatesPart, form: Form) -> tuple[Stack, ...]:
    """The stacks whose heads have gates that are learned; none while the penalty is 0."""
    if not part.l0_penalty:
        return ()
    there, wanted = _STACKS_OF_FORM[form], part.stacks.replace(",", " ").split()
    return tuple(stack for stack in there if not wanted or stack in wanted)


def _objective_faults(recipe: Recipe) -> Iterator[Fault]:
    kind, data, n_tokens = recipe.objective.kind, recipe.data.kind, recipe.model.max_tokens
    if kind == "span-corruption" and data != "text":
        yield "objective.kind", kind, f'another objective, since data.kind is "{data}" and not "text"'
    if kind == "span-corruption" and n_tokens < 8:
        yield "model.max_tokens", n_tokens, "at least 8, so that there is something to hide spans in"
    if recipe.training.sharded and recipe.optimizer.kind == "muon":
        yield "training.sharded", True, 'false, since optimizer.kind "muon" needs whole matrices'
    if recipe.objective.whole_words and kind != "masked":
        yield "objective.whole_words", True, f'false, since objective.kind is "{kind}", not "masked"'
    if recipe.objective.next_sentence:
        if kind != "masked":
            yield "objective.next_sentence", True, f'false, since objective.kind is "{kind}", not "masked"'
        if data != "text":
            yield "objective.next_sentence", True, f'false, since data.kind is "{data}" and not "text"'
        if n_tokens < 8:
            yield "model.max_tokens", n_tokens, "at least 8, so that two segments fit"


def _guide_faults(recipe: Recipe) -> Iterator[Fault]:
    objective, model = recipe.objective, recipe.model
    name, guide = objective.guided_head, objective.guide
    has_sums = SCORES[model.score].comparison == "kernel"
    if not name:
        return
    if objective.kind != "translation" or model.is_recurrent:
        yield "objective.guided_head", name, "empty but for a Transformer that translates"
    elif guide is None or guide.layer >= model.decoder_layers or guide.head >= model.n_heads:
        most = f"L{model.decoder_layers - 1}H{model.n_heads - 1}"
        yield "objective.guided_head", name, f"a head of the cross-attention, from L0H0 to {most}"
    elif has_sums or recipe.gates.l0_penalty or recipe.training.checkpointing:
        also = "model.score kernel, gates.l0_penalty and training.checkpointing"
        yield "objective.guided_head", name, f"empty beside {also}"


def _body_faults(recipe: Recipe) -> Iterator[Fault]:
    model = recipe.model
    plain = ModelConfig(form=model.form, vocab_size=model.vocab_size)
    ignored = list(ignored_choices(model, plain))
    if ignored:
        name, value = ignored[0]
        usual = [(key, getattr(plain, key)) for key, _ in ignored]
        told = ", ".join(f"{key} = {_shown(known)}" for key, known in usual if known is not None)
        either = f"{told}, or left out" if told else "left out"
        expected = f'{either}: the cells of model.body = "{model.body}" do not use it'
        yield f"model.{name}", value, expected
    if model.is_recurrent:
        of_transformers = f'only a Transformer has it, and model.body is "{model.body}"'
        if recipe.training.checkpointing:
            yield "training.checkpointing", True, f"false: {of_transformers}"
        if recipe.start.lora_rank:
            yield "start.lora_rank", recipe.start.lora_rank, f"0: {of_transformers}"


def _start_faults(recipe: Recipe) -> Iterator[Fault]:
    start, model = recipe.start, recipe.model
    if not start.source:
        if start.reinit_layers:
            yield "start.reinit_layers", start.reinit_layers, "0, since start.from names no model"
        if start.lora_rank:
            yield "start.lora_rank", start.lora_rank, "0, since start.from names no model"
    most = max(model.encoder_layers, model.decoder_layers)
    if start.reinit_layers > most:
        yield "start.reinit_layers", start.reinit_layers, f"at most {most}, the layers of a stack"
    if start.reinit_layers and start.lora_rank:
        yield "start.reinit_layers", start.reinit_layers, "0, since with start.lora_rank only adapters learn"
    if start.lora_rank and recipe.training.sharded:
        yield "start.lora_rank", start.lora_rank, "0, since training.sharded is true: adapters are not spread"
    if start.lora_rank > model.d_model:
        yield "start.lora_rank", start.lora_rank, f"at most d_model, which is {model.d_model}"


def _gate_faults(recipe: Recipe) -> Iterator[Fault]:
    stacks, form = recipe.gates.stacks, FORM_OF_OBJECTIVE[recipe.objective.kind]
    there = _STACKS_OF_FORM[form]
    if any(word not in there for word in stacks.replace(",", " ").split()):
        yield "gates.stacks", stacks, f"some of {', '.join(there)}, or nothing for all"


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text.lower() if isinstance(value, bool) else text
