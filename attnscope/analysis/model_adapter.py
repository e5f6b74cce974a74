"""The interface through which analyses query a model, independent of its architecture.

| symbol | meaning                                              | shape                        |
|--------|------------------------------------------------------|------------------------------|
| stream | what a block reads and writes                        | [batch, n_tokens, d_model]   |
| hidden | the stream before the vocabulary, last norm included | [batch, n_tokens, d_model]   |
| joined | head outputs side by side, before the projection     | [batch, n_tokens, H · D]     |

The stack that predicts is `encoder` or `decoder`; in the form encoder–decoder it is the decoder.

Where the parts of a model are: its layers, what they add, their products, units, experts and norms.

Our own models and those of Hugging Face's library, as *places* (`models/passes.py`): a module and the number
of its call in one pass. Both classes say the same of a model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypedDict

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.huggingface.anatomy import (
    Anatomy,
    anatomy_of,
    head_products,
    is_norm,
    is_product,
    matrix_of,
    not_known,
)
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.model import Model
from attnscope.models.passes import CallPlace, evaluating, hooked, own_threads
from attnscope.nn import CrossAttention, FeedForward, InducedAttention, Probe, SelfAttention, Transformer
from attnscope.nn.block import Block, Experts
from attnscope.nn.edits import QuietProbe as QuietProbe
from attnscope.nn.edits import TensorGates as TensorGates
from attnscope.nn.own_module import OwnModule
from attnscope.nn.recurrent import Recurrent
from attnscope.records.models import Form
from attnscope.records.outputs import TELLING_TOKENS
from attnscope.records.sites import Gates, HeadRef, Site, SiteKey, Stack
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.mixers.mixer import Mixer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenBatch:
    """Texts of one batch, padded at the end.

    `labels` [batch, n_tokens] is the token to be told at each position of the stack that predicts, −1
    where nothing is scored. `valid` and `target_valid` are False at padding, None when there is none.
    `segments` [batch, n_tokens] number the texts that a source is made of, None where each is one.
    """

    ids: Tensor
    labels: Tensor
    valid: Tensor | None = None
    target_ids: Tensor | None = None
    target_valid: Tensor | None = None
    segments: Tensor | None = None

    @property
    def n_texts(self) -> int:
        return len(self.ids)

    @property
    def n_tokens(self) -> int:
        """The tokens of all texts, padding included."""
        return self.ids.shape[0] * self.ids.shape[1] + (
            0 if self.target_ids is None else self.target_ids.numel()
        )


class Subject(Protocol):
    """A model as the analyses see it."""

    form: Form
    sites: tuple[Site, ...]

    @property
    def device(self) -> torch.device:
        """Use evaluation mode without gradients in the block; everything is restored afterwards."""

    def studying(self) -> AbstractContextManager[None]:
        """Evaluation mode without gradients for a while; everything is put back afterwards."""

    def hidden(self, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
        """The input of `logits`, at each token of the stack that predicts; see `studying`."""

    def logits(self, hidden: Tensor) -> Tensor:
        """One number per piece, for any rows of `hidden`."""


class OwnSubject:
    """A model of this program; of a Transformer also its streams, blocks and projections."""

    def __init__(self, module: OwnModule) -> None:
        self._module = module
        self.form: Form = module.config.form
        self.sites = module.sites()

    @property
    def device(self) -> torch.device:
        return self._module.device

    @property
    def module(self) -> Transformer:
        """The module when it is a Transformer; raises UserError as `require_transformer` does."""
        return self.require_transformer()

    def require_transformer(self) -> Transformer:
        """The module; raises UserError for a recurrent one, like every operation that needs its parts."""
        if not isinstance(self._module, Transformer):
            raise UserError(
                f"The model is recurrent ({self._module.config.body}): it has no stream that layers add to.",
                expected="a Transformer",
                action="Look at its maps, gates, importance or alignments, or open another model for this.",
            )
        return self._module

    def studying(self) -> AbstractContextManager[None]:
        """Evaluation mode without gradients; a model in training goes back into it."""
        return evaluating(self._module)

    def hidden(self, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
        """The stream of the predicting stack; for labels of texts their row, [batch, 1, d_model]."""
        with own_threads(self._module, batch.n_tokens):
            hidden = self._module.told_from(
                batch.ids,
                second=batch.target_ids,
                valid=batch.valid,
                second_valid=batch.target_valid,
                segments=batch.segments,
                probe=probe,
            )
        return hidden[:, None] if self._module.config.labels_texts else hidden

    def finish(self, stream: Tensor) -> Tensor:
        """The stream after the last norm; post-norm models have none left to apply."""
        module = self.module
        norm = module.encoder_norm if self.form == "encoder" else module.decoder_norm
        finished: Tensor = stream if norm is None else norm(stream)
        return finished

    def logits(self, hidden: Tensor) -> Tensor:
        """One number per piece."""
        return self._module.logits(hidden)

    def blocks(self, stack: Stack) -> tuple[nn.Module, ...]:
        """The blocks of `encoder` or `decoder`."""
        blocks = {"encoder": self.module.encoder, "decoder": self.module.decoder}.get(stack, ())
        return tuple(blocks)

    def block(self, site: SiteKey) -> Block:
        stack, layer = site
        is_of_encoder = stack in ("encoder", "read-in", "latents")
        found = (self.module.encoder if is_of_encoder else self.module.decoder)[layer]
        if not isinstance(found, Block):
            raise TypeError(f"layer {layer} of the {stack} is not a block")
        return found

    def projection(self, site: SiteKey) -> nn.Linear:
        """The output projection of a site, of a recurrent model too."""
        if isinstance(self._module, Recurrent):
            attention: nn.Module | None = self._module.cross
        else:
            block = self.block(site)
            is_across = site[0] == "cross" or (site[0] == "read-in" and block.cross is not None)
            attention = block.cross if is_across else block.attention
            if site[0] == "read-in" and isinstance(attention, InducedAttention):
                attention = attention.read_in
        output = getattr(attention, "output", None)
        if not isinstance(output, nn.Linear):
            raise ValueError(f"there is no site {site}")
        return output


class HuggingFaceSubject:
    """A library model that predicts tokens; its `hidden` are already its logits."""

    def __init__(self, network: HuggingFaceNetwork) -> None:
        self.form: Form = network.form
        self.sites = network.sites
        self._network = network

    @property
    def device(self) -> torch.device:
        return self._network.device

    def studying(self) -> AbstractContextManager[None]:
        """No gradients; such a model is always in evaluation mode."""
        return torch.no_grad()

    def hidden(self, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
        """The logits at each token."""
        arguments = {"input_ids": batch.ids}
        if batch.valid is not None:
            arguments["attention_mask"] = batch.valid.long()
        if batch.target_ids is not None:
            arguments["decoder_input_ids"] = batch.target_ids
        if batch.segments is not None and self._network.abilities.has_segments:
            arguments["token_type_ids"] = batch.segments
        attached = self._network.attached
        quiet = attached.probing(QuietProbe()) if attached.has_gates else nullcontext()
        with attached.probing(probe) if probe else quiet, self._network.threads(batch.n_tokens):
            logits: Tensor = self._network.module(**arguments).logits
        return logits

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden


def subject_of(model: Model, *, needs_gates: bool = True) -> Subject:
    """The subject behind a model; raises UserError for one that predicts no tokens or has no gates."""
    network = model.network
    if not isinstance(network, HuggingFaceNetwork):
        return OwnSubject(model.own.module)
    if network.output_kind not in TELLING_TOKENS:
        raise _cannot_be_scored(network)
    if needs_gates:
        refuse_gateless(network)
    return HuggingFaceSubject(network)


def refuse_gateless(network: HuggingFaceNetwork) -> None:
    """Raise UserError for a model that computes its attention itself, out of reach."""
    if not network.attached.has_gates:
        raise _cannot_be_scored(network)


def _cannot_be_scored(network: HuggingFaceNetwork) -> UserError:
    tells = {"class": "it predicts classes", "nothing": "it has no output layer"}
    why = tells.get(network.output_kind, "its attention is computed in its own code")
    return UserError(
        f"{network.info.name} is a model whose heads cannot be scored: {why}.",
        expected="a model that predicts tokens, with heads that can be gated",
        action="Open another model for this.",
    )


def require_answers(model: Model) -> None:
    """Raise UserError for a model without logits to explain: of tokens of a text, or of classes."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork) and network.output_kind == "class":
        refuse_gateless(network)
    else:
        telling_subject(model)


def telling_subject(model: Model, *, needs_gates: bool = True) -> Subject:
    """The subject behind a model that reads a text and predicts its tokens; raises UserError for others."""
    network = model.network
    if not isinstance(network, HuggingFaceNetwork):
        return own_subject(model)
    if network.output_kind == "class" or network.output_kind == "nothing" or network.info.reads != "text":
        raise no_vocabulary(model)
    return subject_of(model, needs_gates=needs_gates)


def no_vocabulary(model: Model) -> UserError:
    """The error for a model that reads no text, or predicts no tokens of it."""
    reads, output = model.info.reads, model.network.output_kind
    if reads != "text":
        why = f"it reads {reads}s"
    else:
        why = "it predicts classes" if output == "class" else "it has no output layer"
    return UserError(
        f"{model.info.name} has no vocabulary of text tokens to predict from ({why}).",
        expected="a model that reads text and has a vocabulary to predict tokens from",
        action="Look at its maps, gates or measures, or open another model for this.",
    )


def gate_tensors(subject: Subject, gates: Gates) -> dict[SiteKey, Tensor]:
    """The gates of each site as float32 [n_heads] on the model's device."""
    values, sites = dict(gates.values), subject.sites
    every = torch.tensor([values.get(head, 1.0) for site in sites for head in site.heads])
    parts = torch.split(every.to(subject.device), [site.n_heads for site in sites])  # one copy for all sites
    return {site.key: part for site, part in zip(sites, parts, strict=True)}


def gate_probe(subject: Subject, gates: Gates) -> TensorGates | None:
    """The gates as a probe; None where every head is on."""
    return TensorGates(gate_tensors(subject, gates)) if gates else None


def own_subject(model: Model) -> OwnSubject:
    """The subject behind a Transformer of this program that predicts tokens; raises UserError for others."""
    require_tokens(model)
    subject = OwnSubject(model.own.module)
    subject.require_transformer()
    return subject


def require_tokens(model: Model) -> None:
    """Raise UserError for one of our models that predicts labels, or whose keys are slots, not tokens."""
    config = model.own.config
    if config.n_labels:
        of = " of whole texts" if config.labels_texts else ""
        raise UserError(
            f"{model.info.name} predicts labels{of}, not tokens.",
            expected="a model that predicts tokens",
            action="Look at its maps, gates, measures or importance, or open another model for this.",
        )
    if config.n_projected:
        raise UserError(
            f"The heads of {model.info.name} attend to slots and not to tokens.",
            expected="a model without n_projected",
            action="Look at its maps, gates, measures or importance, or open another model for this.",
        )


def predicting_stack(form: Form) -> Stack:
    """The stack whose stream becomes predictions."""
    return "encoder" if form == "encoder" else "decoder"


ATTENTION, CROSS, FEED_FORWARD = "attention", "cross-attention", "feed-forward"
Rows = list[int]


class OwnParts:
    """The parts of a Transformer of this program; raises UserError for a recurrent model."""

    def __init__(self, subject: OwnSubject) -> None:
        if subject.require_transformer().config.has_latents:
            raise UserError(
                "The layers of this model are of latents, and of no tokens.",
                expected="a model whose layers have a row for each token",
                action="Look at its maps: read-in is what the latents read.",
            )
        self._subject = subject

    def layers(self, stack: Stack) -> tuple[CallPlace, ...]:
        return tuple(CallPlace(module=block) for block in self._blocks(stack))

    def added(self, stack: Stack) -> Mapping[str, tuple[CallPlace, ...]]:
        """Modules whose output is added to the stream, by part."""
        blocks = self._blocks(stack)
        if not self._subject.module.config.has_residual:
            raise UserError(
                "The layers of this model replace the stream and add nothing to it.",
                expected="a model with residual connections",
            )
        found: dict[str, tuple[CallPlace, ...]] = {}
        for name, part in self._names.items():
            modules = [getattr(block, f"{part}_end") or getattr(block, part) for block in blocks]
            if all(isinstance(module, nn.Module) for module in modules):
                found[name] = tuple(CallPlace(module=module) for module in modules)
        return found

    def ways(self, stack: Stack, layer: int) -> Mapping[str, "PartPlaces"]:
        """Modules at which the parts of a layer read and write, without the norms around them."""
        block = self._blocks(stack)[layer]
        names = self._names
        return {name: _own_places(block.get_submodule(names[name])) for name in self.added(stack)}

    def norms(self, layer: CallPlace) -> list[CallPlace]:
        names = (f"{part}_{at}" for part in ("attention", "cross", "feed_forward") for at in ("norm", "end"))
        found = (getattr(layer.module, name) for name in names)
        return [CallPlace(module=one) for one in found if one is not None]

    def last_norms(self) -> list[CallPlace]:
        """Candidates for the norm after the last layer."""
        module = self._subject.require_transformer()
        found = (module.decoder_norm, module.encoder_norm)
        return [CallPlace(module=one) for one in found if one is not None]

    def output(self) -> nn.Module | None:
        """Module that turns the last stream into the output."""
        return self._subject.module.head

    @property
    def _names(self) -> dict[str, str]:
        mixer = self._subject.module.config.mixer
        first = ATTENTION if MIXERS[mixer].is_attention else mixer
        return {first: "attention", CROSS: "cross", FEED_FORWARD: "feed_forward"}

    def products(self, head: HeadRef) -> Mapping[str, tuple[CallPlace, Rows]]:
        """Projections of a head's q, k and v, and the rows that belong to the head."""
        block = self._subject.block(head.site_key)
        module = block.cross if head.stack == "cross" else block.attention
        if not isinstance(module, SelfAttention | CrossAttention):
            raise UserError(f"{head.label} was removed.", expected="a head that the model has")
        group = next(k for k, one in enumerate(_groups(module)) if head.head in one)
        width, n_heads, n_kv = module.d_head, module.n_heads, module.n_kv_heads

        def rows(first: int) -> Rows:
            return list(range(first * width, (first + 1) * width))

        if isinstance(module, SelfAttention):
            place = CallPlace(module=module.qkv)
            kv = {"k": rows(n_heads + group), "v": rows(n_heads + n_kv + group)}
            return {"q": (place, rows(head.head)), **{name: (place, one) for name, one in kv.items()}}
        place = CallPlace(module=module.kv)
        return {
            "q": (CallPlace(module=module.query), rows(head.head)),
            "k": (place, rows(group)),
            "v": (place, rows(n_kv + group)),
        }

    def inner(self, stack: Stack) -> tuple[CallPlace, ...]:
        """Modules that read the units of each feed-forward part."""
        parts = [block.feed_forward for block in self._blocks(stack)]
        if not parts or any(part is None for part in parts):
            raise UserError("The layers of this model have no feed-forward part.", expected="layers with one")
        plain = [part for part in parts if isinstance(part, FeedForward)]
        if len(plain) < len(parts):
            raise UserError(
                "The feed-forward parts of this model are divided into experts.",
                expected="layers with one feed-forward part",
                action="Ask for Experts instead.",
            )
        return tuple(CallPlace(module=part.down) for part in plain)

    def routers(self, stack: Stack) -> dict[int, nn.Module]:
        """Routers to experts, by layer."""
        parts = enumerate(block.feed_forward for block in self._blocks(stack))
        found: dict[int, nn.Module] = {at: one.router for at, one in parts if isinstance(one, Experts)}
        if not found:
            raise _no_experts()
        return found

    def unrolled(self, run: Callable[[], object]) -> tuple[Mixer, list[tuple[Tensor, Tensor | None]]]:
        """The mixer, and for each layer its weights on the last text, and those of a softmax."""
        mixer = MIXERS[self._subject.module.config.mixer]
        if mixer.is_attention:
            raise _has_attention()
        found: list[tuple[Tensor, Tensor | None]] = []

        def note(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            found.append(module.unrolled(arguments[0][-1:], rotary=named.get("rotary")))

        with ExitStack() as stack:
            for block in self._blocks("decoder"):
                stack.callback(block.attention.register_forward_pre_hook(note, with_kwargs=True).remove)
            run()
        return mixer, found

    def _blocks(self, stack: Stack) -> tuple[Block, ...]:
        found = tuple(block for block in self._subject.blocks(stack) if isinstance(block, Block))
        if not found:
            raise _no_stack(stack)
        return found


class PartPlaces(TypedDict):
    """The modules at which a part reads the stream, its last product reads, and that product writes."""

    reads: CallPlace | None
    inside: CallPlace | None
    gives: CallPlace


def _own_places(module: nn.Module) -> PartPlaces:
    place, inside = CallPlace(module=module), None
    if isinstance(module, FeedForward):
        inside = CallPlace(module=module.down)
    elif isinstance(module, SelfAttention | CrossAttention):
        inside = CallPlace(module=module.output)
    return {"reads": place, "inside": inside, "gives": place}


def _groups(module: SelfAttention | CrossAttention) -> Iterator[set[int]]:
    groups = module.layout.groups
    return ({head for head, one in enumerate(groups) if one == k} for k in range(module.n_kv_heads))


class ForeignParts:
    """The parts of a model of Hugging Face's library."""

    def __init__(self, network: HuggingFaceNetwork, run: Callable[[], object]) -> None:
        self._network, self._run = network, run

    @cached_property
    def _anatomy(self) -> Anatomy:
        return anatomy_of(self._network)

    def layers(self, stack: Stack) -> tuple[CallPlace, ...]:
        found = self._anatomy.layers(stack)
        if not found:
            raise _no_stack(stack)
        return found

    def added(self, stack: Stack) -> Mapping[str, tuple[CallPlace, ...]]:
        anatomy, keys = self._anatomy, self._keys(stack)
        found: dict[str, list[CallPlace | None]] = {
            ATTENTION: [anatomy.projections[key] for key in keys],
            CROSS: [anatomy.projections.get(("cross", layer)) for _, layer in keys],
            FEED_FORWARD: [anatomy.feed_forwards.get(key) for key in keys],
        }
        if stack != "decoder":
            del found[CROSS]
        return {
            name: tuple(place for place in places if place is not None)
            for name, places in found.items()
            if all(place is not None for place in places)
        }

    def ways(self, stack: Stack, layer: int) -> Mapping[str, "PartPlaces"]:
        anatomy, keys = self._anatomy, self._keys(stack)
        key = keys[layer]
        sites: dict[str, SiteKey] = {ATTENTION: key, CROSS: ("cross", key[1])}
        found: dict[str, PartPlaces] = {}
        for name, places in self.added(stack).items():
            gives = places[layer]
            if name == FEED_FORWARD:
                reads, inside = anatomy.feed_forward_readers.get(key), self._units_of(stack, layer)
            else:
                reads, inside = anatomy.attentions.get(sites[name]), gives
            found[name] = {"reads": reads, "inside": inside, "gives": gives}
        return found

    def norms(self, layer: CallPlace) -> list[CallPlace]:
        inside = [module for module in layer.module.modules() if is_norm(module)]
        return [CallPlace(module=module, call=layer.call) for module in inside]

    def last_norms(self) -> list[CallPlace]:
        blocks = {part for place in self._anatomy.blocks.values() for part in place.module.modules()}
        outside = (part for part in self._network.module.modules() if part not in blocks and is_norm(part))
        return [CallPlace(module=part) for part in outside]

    def output(self) -> nn.Module | None:
        product: nn.Module | None = self._network.module.get_output_embeddings()
        return product

    def _units_of(self, stack: Stack, layer: int) -> CallPlace | None:
        """Module that reads the units of a layer; None for experts, or if not found."""
        try:
            return self.inner(stack)[layer]
        except UserError:
            return None

    def products(self, head: HeadRef) -> Mapping[str, tuple[CallPlace, Rows]]:
        found = head_products(self._network, head.site_key)
        n_heads = next(site.n_heads for site in self._network.sites if site.key == head.site_key)
        return {
            name: (place, rows[head.head * len(rows) // n_heads]) for name, (place, rows) in found.items()
        }

    def inner(self, stack: Stack) -> tuple[CallPlace, ...]:
        places = [self._anatomy.feed_forwards.get(key) for key in self._keys(stack)]
        inside = [[] if place is None else [*filter(is_product, place.module.modules())] for place in places]
        last = _last_called([one for products in inside for one in products], self._run)
        found = []
        for place, products in zip(places, inside, strict=True):
            called = [one for one in last if one in products]
            is_one = place is not None and called and len(products) <= _MOST_PRODUCTS
            if not is_one or place is None or _width_of(called[-1]) != self._width:
                raise not_known(self._network, "where its feed-forward parts keep their units")
            found.append(CallPlace(module=called[-1], call=place.call))
        return tuple(found)

    def routers(self, stack: Stack) -> dict[int, nn.Module]:
        found: dict[int, nn.Module] = {}
        for layer, place in enumerate(self.layers(stack)):
            inside = [one for one in place.module.modules() if type(one).__name__.endswith("Router")]
            found.update((layer, one) for one in inside[:1])
        if not found:
            raise _no_experts()
        return found

    def unrolled(self, run: Callable[[], object]) -> tuple[Mixer, list[tuple[Tensor, Tensor | None]]]:
        raise _has_attention()

    @cached_property
    def _width(self) -> int:
        return _width_of(next(iter(self._anatomy.projections.values())).module)

    def _keys(self, stack: Stack) -> list[SiteKey]:
        return sorted(key for key in self._anatomy.blocks if key[0] == stack)


_MOST_PRODUCTS = 3
"""Of a feed-forward part without experts: up, gate and down."""


def _width_of(product: nn.Module) -> int:
    return len(matrix_of(product))


def _last_called(products: Sequence[nn.Module], run: Callable[[], object]) -> list[nn.Module]:
    """Products in the order of their last call in a pass."""
    called: dict[nn.Module, None] = {}

    def note(module: nn.Module, *_: object) -> None:
        called.pop(module, None)
        called[module] = None

    handles = [one.register_forward_hook(note) for one in products]
    with hooked(handles):
        run()
    return list(called)


def _no_stack(stack: Stack) -> UserError:
    return UserError(
        f"The model has no {stack} of layers that add to a stream.",
        expected="a stack that the model has",
        action="Choose the other one.",
    )


def _no_experts() -> UserError:
    return UserError(
        "The feed-forward parts of this model are not divided into experts.",
        expected="a mixture of experts, such as Mixtral or Switch Transformer",
    )


def _has_attention() -> UserError:
    return UserError(
        "The layers of this model mix tokens by attention, whose weights are its maps.",
        expected="a model whose mixer is retention, selective or convolution",
        action="Look at its maps, or train the recipe induction-retention or induction-selective.",
    )
