"""What a question gets of a model that reads one text: streams, projections, probabilities, units.

Our own models and those of Hugging Face's library are watched alike, at *places* (`models/places.py`): a
module and the number of its call in one pass. What is watched is what the model itself computed, in its own
precision, handed on as float64.

| symbol | meaning                                                | shape                        |
|--------|--------------------------------------------------------|------------------------------|
| x      | the stream: what a layer reads, and what the last left  | [n_layers + 1, n_tokens, d]  |
| given  | what a part of a layer adds                            | [n_layers, n_tokens, d]      |
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from attnscope.analysis.model_adapter import OwnSubject, predicting_stack
from attnscope.analysis.passages import joined
from attnscope.analysis.reading import first_tensor, predicting_tokens
from attnscope.errors import NotFiniteError, UserError
from attnscope.models.huggingface.anatomy import Anatomy, anatomy_of, is_product, not_known
from attnscope.models.huggingface.head_rows import head_products, matrix_of
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.huggingface.norms import is_norm
from attnscope.models.model import Model
from attnscope.models.network import Pass, knowing
from attnscope.models.outputs import finite, log_probabilities
from attnscope.models.own import OwnNetwork
from attnscope.models.passes import evaluating, hidden_stream
from attnscope.models.places import CallPlace
from attnscope.nn.block import Block, one_stream
from attnscope.nn.config import ModelConfig
from attnscope.nn.experts import Experts
from attnscope.nn.hard_concrete import open_probability
from attnscope.nn.layers import CrossAttention, FeedForward, SelfAttention
from attnscope.nn.precision import exact
from attnscope.nn.recurrent import Recurrent
from attnscope.nn.scoring import Scoring
from attnscope.nn.transformer import Transformer
from attnscope.questions import (
    Attended,
    Copied,
    Decoded,
    Mixing,
    NextTokens,
    OpenOffsets,
    PartPath,
    Passage,
    Projections,
    Question,
    Recalled,
    Routing,
    Said,
    Spans,
    Streams,
    Units,
)
from attnscope.questions.question import AUTO, Numbers
from attnscope.records.asking import Answer
from attnscope.records.interventions import Interventions
from attnscope.records.models import ModelInfo, needs_model
from attnscope.records.sites import STACKS, Gates, HeadRef, SiteKey, Stack, check_heads
from attnscope.records.tokens import Token
from attnscope.schemes.masks import MASKS
from attnscope.schemes.mixers import MIXERS
from attnscope.trace.probe import GateProbe, TraceProbe
from attnscope.trace.weights import site_weights

ATTENTION, CROSS, FEED_FORWARD = "attention", "cross-attention", "feed-forward"
_N_BEST = 8
_SUM_TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-8}
"""How far a layer's output may lie from the sum of its parts, as a share of its largest number."""


def ask_model(
    question: Question,
    model: Model,
    text: str,
    target: str | None = None,
    *,
    options: object = None,
    head: HeadRef | None = None,
    gates: Gates | None = None,
    interventions: Interventions = (),
) -> Answer:
    """The answer of a model; raises UserError, in one sentence, for one that has no such part.

    `options` None are those that hold at first, `head` None is the model's first.
    """
    reading = ModelReading(model, text, target, head=head, gates=gates, interventions=interventions)
    return question.answer(reading, question.options if options is None else options)


class ModelReading:
    """See `questions.question.Reading`."""

    def __init__(
        self,
        model: Model,
        text: str,
        target: str | None = None,
        *,
        head: HeadRef | None = None,
        gates: Gates | None = None,
        interventions: Interventions = (),
    ) -> None:
        if model.info.is_recorded:
            raise needs_model(model.info.name, "A question")
        if not text.strip():
            raise UserError("There is no text to look at.", expected="at least one word")
        self._model, self._network = model, model.network
        self._head = head if head is not None else _first_head(model)
        self._gates = model.first_gates if gates is None else gates
        self._edits = model.edits(interventions)
        self._probe = GateProbe(model.sites, self._gates, edits=self._edits)
        self._inputs = model.encode(text, target)

    @property
    def model(self) -> ModelInfo:
        return self._model.info

    @property
    def tokens(self) -> tuple[Token, ...]:
        return predicting_tokens(self._inputs)

    def streams(self, stack: str = AUTO) -> Streams:
        parts, of_stack = self._parts, self._stack(stack)
        layers, added = parts.layers(of_stack), parts.added(of_stack)
        every = [place for places in added.values() for place in places]
        norms = dict.fromkeys(norm.module for place in layers for norm in parts.norms(place))
        with (
            _watched(reads=layers, gives=(*layers, *every)) as seen,
            _norms_behind(seen, every, norms) as ends,
        ):
            self._run()
        x = np.stack([*(seen.read(place) for place in layers), seen.given(layers[-1])])
        given = {name: np.stack([seen.given(place) for place in places]) for name, places in added.items()}
        is_sum = _is_sum(x, given, _dtype_of(self._network))
        if not is_sum and len(ends) == len(every):
            seen.given_at.update(ends)
            behind = {name: np.stack([seen.given(place) for place in of]) for name, of in added.items()}
            if _is_sum(x, behind, _dtype_of(self._network)):
                given, is_sum = behind, True
        return Streams(stack=of_stack, tokens=self._tokens_of(of_stack), x=x, added=given, is_sum=is_sum)

    def passage(self, layer: int, stack: str = AUTO) -> Passage:
        parts, of_stack = self._parts, self._stack(stack)
        layers = parts.layers(of_stack)
        layer = min(layer, len(layers) - 1)
        block, ways, norms = layers[layer], parts.ways(of_stack, layer), parts.norms(layers[layer])
        reads = [
            place for way in ways.values() for place in (way["reads"], way["inside"]) if place is not None
        ]
        gives = [way["gives"] for way in ways.values()]
        with _watched(reads=[block, *reads, *norms], gives=[block, *gives, *norms]) as seen:
            self._run()
        x, after = seen.read(block), seen.given(block)
        known = [(seen.read(one), seen.given(one)) for one in norms if one in seen.given_at]
        found = joined(
            x,
            after,
            [
                PartPath(
                    name=name,
                    reads=_row_by_row(seen, way["reads"], len(x)),
                    inside=_row_by_row(seen, way["inside"], len(x)),
                    gives=seen.given(way["gives"]),
                )
                for name, way in ways.items()
            ],
            [norm for norm in known if _is_norm_of(x, *norm)],
            _SUM_TOLERANCES.get(_dtype_of(self._network), 2e-2),
        )
        is_reversible = isinstance(block.module, Block) and block.module.is_reversible
        return Passage(
            stack=of_stack,
            tokens=self._tokens_of(of_stack),
            layer=layer,
            n_layers=len(layers),
            x=x,
            parts=found.parts,
            after=after,
            order="reversible" if is_reversible else found.order,
            adds_up=found.adds_up,
        )

    def said(self, token: int) -> Said:
        network, parts = self._network, self._parts
        if network.output_kind == "nothing":
            raise UserError(f"{self.model.name} has no output layer.", expected="a model with one")
        places = network.shown_positions(self._inputs) if network.output_kind == "class" else [token]
        if token not in places:
            of_whole = "what it tells is of the whole input, and stands at token"
            only = f"{of_whole} {places[0]}" if len(places) == 1 else "it tells labels of other tokens"
            raise UserError(
                f"{self.model.name} tells nothing at token {token}: {only}.",
                expected=f"one of {', '.join(map(str, places))}",
            )
        block = parts.layers(self._stack(AUTO))[-1]
        norms = parts.last_norms()
        with _watched(reads=norms, gives=[block, *norms]) as seen, _last_read(parts.output()) as read:
            logits = exact(finite(self._run().logits([token])[0])).cpu()
        x = seen.given(block)
        ends = (seen.given(norm) for norm in norms if norm in seen.given_at and seen.is_read(norm, x))
        normed = next(ends, None)
        best = logits.topk(min(_N_BEST, len(logits))).indices.tolist()
        answer = knowing(network, self._inputs).answer
        return Said(
            x=x[token],
            normed=None if normed is None else normed[token],
            reads=None if not read else read[-1][token if len(read[-1]) > 1 else 0][: x.shape[-1]],
            logits=logits.numpy(),
            p=logits.softmax(dim=-1).numpy(),
            best=tuple((answer(id).piece, id) for id in best),
            is_of_whole=network.output_kind == "class" and len(places) == 1,
        )

    def projections(self) -> Projections:
        head = self._asked_head()
        products = self._parts.products(head)
        with _watched(gives=tuple(place for place, _ in products.values())) as seen:
            self._run()
        numbers = {name: seen.given(place)[:, rows] for name, (place, rows) in products.items()}
        queries, keys = self._tokens_of_head(head)
        return Projections(head=head, query_tokens=queries, key_tokens=keys, **numbers)

    def next_tokens(self) -> NextTokens:
        kind = self._network.output_kind
        if kind not in ("next-token", "translation") or self.model.reads != "text":
            raise UserError(
                f"{self.model.name} does not predict the next token of a text.",
                expected="a causal language model, or a translation model",
                action="Open another model for this.",
            )
        network = self._network
        n_memory = network.config.memory_tokens if isinstance(network, OwnNetwork) else 0
        tokens = self.tokens[n_memory:]  # what stands in front of the text is told by nobody
        if len(tokens) < 2:
            raise UserError("The text has only one token.", expected="a longer text")
        return NextTokens(tokens=tokens[1:], positions=tuple(range(n_memory, n_memory + len(tokens) - 1)))

    def log_p(self, positions: Sequence[int]) -> Numbers:
        found: Numbers = log_probabilities(self._done.logits(list(positions))).cpu().numpy()
        return found

    def units(self, stack: str = AUTO) -> Units:
        of_stack = self._stack(stack)
        places = self._parts.inner(of_stack)
        with _watched(reads=places) as seen:
            self._run()
        activations = tuple(seen.read(place) for place in places)
        return Units(stack=of_stack, tokens=self._tokens_of(of_stack), activations=activations)

    def routing(self, stack: str = AUTO) -> Routing:
        of_stack = self._stack(stack)
        tokens = self._tokens_of(of_stack)
        routers = self._parts.routers(of_stack)
        with _routed(routers) as seen:
            self._run()
        found = {layer: routes_of(seen[layer], len(tokens)) for layer in routers if layer in seen}
        return Routing(
            stack=of_stack,
            tokens=tokens,
            layers=tuple(found),
            weights=tuple(weights for weights, _ in found.values()),
            p=tuple(p for _, p in found.values()),
        )

    def attended(self) -> Attended:
        head = self._asked_head()
        site = next(one for one in self._model.sites if one.key == head.site_key)
        if site.keys != "tokens" or head.stack not in ("encoder", "decoder", "cross"):
            raise UserError(
                f"{head.stack} {head.label} does not let tokens read tokens: its keys are {site.keys}.",
                expected="a head of an encoder, of a decoder or of cross-attention",
            )
        probe = TraceProbe(
            self._model.sites, self._gates, wanted=frozenset({head.site_key}), edits=self._edits
        )
        self._network.run(self._inputs, probe)
        record = probe.records[head.site_key]
        row = slice(head.head, head.head + 1)
        group = head.head * len(record.k) // len(record.q)
        parts = (_finite(record.q[head.head]), _finite(record.k[group]), site_weights(record, row)[0])
        q, k, weights = (exact(one).cpu().numpy() for one in parts)
        queries, keys = self._tokens_of_head(head)
        return Attended(head=head, query_tokens=queries, key_tokens=keys, q=q, k=k, weights=weights)

    def decoded(self) -> Decoded:
        network, head = self._network, self._asked_head()
        module = network.module if isinstance(network, OwnNetwork) else None
        if not isinstance(module, Recurrent) or module.cross is None:
            raise UserError(
                f"{self.model.name} has no recurrent decoder with attention.",
                expected="a recurrent model with attention, such as of the recipe reverse-bahdanau",
            )
        asked: list[tuple[Tensor, Tensor]] = []
        joined: list[Tensor] = []
        contexts: list[Tensor] = []

        def attends(_: nn.Module, given: tuple[Any, ...], out: Any) -> None:
            asked.append((given[0][-1], given[1][-1]))
            contexts.append(first_tensor(out)[-1])

        def reads(_: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
            joined.append(given[0][-1].reshape(-1, given[0].shape[-1]))
            sums.append(out[-1].reshape(-1, out.shape[-1]))

        sums: list[Tensor] = []
        probe = TraceProbe(
            self._model.sites, self._gates, wanted=frozenset({head.site_key}), edits=self._edits
        )
        with ExitStack() as stack:
            stack.callback(module.cross.register_forward_hook(attends).remove)
            stack.callback(module.readout.register_forward_hook(reads).remove)
            done = network.run(self._inputs, probe)
        queries, keys = self._tokens_of_head(head)
        n = len(queries)
        c = torch.cat(contexts)[-n:]  # a head that gives its mean is run through twice: the last pass counts
        record = probe.records[head.site_key]
        weights = site_weights(record, slice(head.head, head.head + 1))[0]
        scores = weights.log() + record.lse[head.head][:, None]
        p = log_probabilities(done.logits(list(range(n)))).exp()
        best = p.topk(min(_N_BEST, p.shape[-1]), dim=-1)
        return Decoded(
            head=head,
            source_tokens=keys,
            target_tokens=queries,
            h=_rows(asked[-1][1]),
            s=_rows(torch.cat([state for state, _ in asked])[-n:]),
            c=_rows(c),
            joined=_rows(torch.cat(joined)[-n:]),
            t=_rows((c + torch.cat(sums)[-n:]).tanh()),
            scores=_rows(scores),
            weights=_rows(weights),
            best=tuple(
                tuple(
                    (self._network.vocabulary.token(int(id)).piece, float(one))
                    for id, one in zip(ids, ps, strict=True)
                )
                for ids, ps in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ),
            is_fed=module.config.feeds_context,
        )

    def mixing(self) -> Mixing:
        found = self._parts.unrolled(self._run)
        return Mixing(
            tokens=self.tokens,
            mixer=found[0],
            weights=tuple(_array(weights) for weights, _ in found[1]),
            softmax=tuple(None if softmax is None else _array(softmax) for _, softmax in found[1]),
        )

    def spans(self) -> Spans:
        head, config, found = self._learned_sites("ramp", "learned no span", "copy-spans")
        spans = {key: _learned(site.spans()) for key, site in found.items()}
        return Spans(head=head, limit=config.span_limit, ramp=float(config.span_ramp), of_sites=spans)

    def open_offsets(self) -> OpenOffsets:
        head, _, found = self._learned_sites("offsets", "learned no mask", "copy-offsets")
        masks: dict[SiteKey, Numbers] = {}
        p_open: dict[SiteKey, Numbers] = {}
        for key, site in found.items():
            with torch.no_grad():
                masks[key] = _learned(site.mask())
                p = _learned(open_probability(site.log_alpha()))
            p_open[key] = np.concatenate([np.ones((len(p), 1)), p], axis=1)
        return OpenOffsets(head=head, masks=masks, p_open=p_open)

    def _learned_sites(
        self, kind: str, lacks: str, recipe: str
    ) -> tuple[HeadRef, ModelConfig, dict[SiteKey, Scoring]]:
        """The head that is asked about, and every site whose heads learned where to look."""
        head, network = self._asked_head(), self._network
        config = network.config if isinstance(network, OwnNetwork) else None
        found: dict[SiteKey, Scoring] = {}
        if isinstance(network, OwnNetwork) and network.config.span_limit and network.config.span_kind == kind:
            for site in self._model.sites:
                if site.stack in ("encoder", "decoder"):
                    module = OwnSubject(network.module).block(site.key).attention.get_submodule("scoring")
                    if isinstance(module, Scoring):
                        found[site.key] = module
        if head.site_key not in found or config is None:
            raise UserError(
                f"{head.stack} {head.label} of this model {lacks}.",
                expected=f'a self-attention head of a model with span_limit and span_kind = "{kind}"',
                action=f"Train the recipe {recipe}.",
            )
        return head, config, found

    def copied(self) -> Copied:
        network, target = self._network, self._inputs.target
        module = network.module if isinstance(network, OwnNetwork) else None
        gate = None if module is None else module.head.copy_gate
        if not isinstance(module, Transformer) or gate is None or target is None:
            raise UserError(
                f"{self.model.name} writes every token from its vocabulary and copies none.",
                expected="a model with copies_source",
                action="Train the recipe reports.",
            )
        n, d = len(target), module.config.d_model
        with evaluating(module), _found_weights(module) as found:
            hidden = hidden_stream(module, self._inputs, self._probe)[0]
            log_p = log_probabilities(module.logits(hidden)).cpu()
            generator = torch.full_like(log_p, -torch.inf)
            generator[:, : module.config.vocab_size] = log_probabilities(module.logits(hidden[:, :d])).cpu()
            p_write = exact(gate(hidden[:, :d])).cpu()[:, 0].sigmoid()
        told = [*target.ids[1:], int(log_p[-1].argmax())]
        weights = found[0][0].mean(dim=0) if found else hidden.new_zeros(n, len(self._inputs.source))
        return Copied(
            tokens=target.tokens,
            source=self._inputs.source.tokens,
            told=(*target.tokens[1:], knowing(self._network, self._inputs).answer(told[-1])),
            p_write=p_write.numpy(),
            weights=exact(weights).cpu().numpy(),
            p=log_p[range(n), told].exp().numpy(),
            p_generator=generator[range(n), told].exp().numpy(),
        )

    def recalled(self) -> Recalled:
        head, network = self._asked_head(), self._network
        config = network.config if isinstance(network, OwnNetwork) else None
        if config is None or not MASKS[config.mask].recalls or head.stack not in ("encoder", "decoder"):
            raise UserError(
                f"{head.stack} {head.label} of this model does not read its text in segments.",
                expected='a self-attention head of a model with mask = "segment-recurrence"',
                action="Train the recipe copy-segments.",
            )
        keys = [site.key for site in self._model.sites if site.stack == head.stack]
        probe = TraceProbe(self._model.sites, self._gates, wanted=frozenset(keys), edits=self._edits)
        network.run(self._inputs, probe)
        weights = {key: exact(site_weights(probe.records[key])).cpu().numpy() for key in keys}
        return Recalled(
            head=head,
            tokens=self._tokens_of(head.stack),
            size=config.segment_tokens,
            memory=config.segment_memory,
            weights=weights,
        )

    # -- inside ---------------------------------------------------------------------------------

    def _asked_head(self) -> HeadRef:
        if self._head is None:
            raise UserError(f"{self.model.name} has no heads.", expected="a model with attention")
        check_heads((self._head,), self._model.sites)
        return self._head

    def _tokens_of_head(self, head: HeadRef) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens of its queries and of its keys."""
        if head.stack == "cross":
            return self._tokens_of("decoder"), self._tokens_of("encoder")
        return self._tokens_of(head.stack), self._tokens_of(head.stack)

    @cached_property
    def _parts(self) -> "_OwnParts | _ForeignParts":
        network = self._network
        if isinstance(network, HuggingFaceNetwork):
            return _ForeignParts(network, self._run)
        return _OwnParts(OwnSubject(self._model.own.module))

    @cached_property
    def _done(self) -> Pass:
        return self._run()

    def _run(self) -> Pass:
        return self._network.run(self._inputs, self._probe)

    def _stack(self, stack: str) -> Stack:
        for one in STACKS:
            if one == stack:
                return one
        return predicting_stack(self._network.form)

    def _tokens_of(self, stack: Stack) -> tuple[Token, ...]:
        inputs = self._inputs
        is_target = stack == "decoder" and inputs.target is not None
        return inputs.target.tokens if is_target and inputs.target is not None else inputs.source.tokens


def _first_head(model: Model) -> HeadRef | None:
    return next((head for site in model.sites for head in site.heads), None)


# Where the parts of a model are.

Rows = list[int]


class _OwnParts:
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
        """Whose output is added to the stream, by part."""
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

    def ways(self, stack: Stack, layer: int) -> Mapping[str, "_PartPlaces"]:
        """Where the parts of a layer read and give, without the norms around them."""
        block = self._blocks(stack)[layer]
        names = self._names
        return {name: _own_places(block.get_submodule(names[name])) for name in self.added(stack)}

    def norms(self, layer: CallPlace) -> list[CallPlace]:
        """Every norm around the parts of a layer."""
        names = (f"{part}_{at}" for part in ("attention", "cross", "feed_forward") for at in ("norm", "end"))
        found = (getattr(layer.module, name) for name in names)
        return [CallPlace(module=one) for one in found if one is not None]

    def last_norms(self) -> list[CallPlace]:
        """What may be the norm behind the last layer."""
        module = self._subject.require_transformer()
        found = (module.decoder_norm, module.encoder_norm)
        return [CallPlace(module=one) for one in found if one is not None]

    def output(self) -> nn.Module | None:
        """What reads the last stream and tells from it."""
        return self._subject.module.head

    @property
    def _names(self) -> dict[str, str]:
        """What the parts of a layer are called, and where they stand in it."""
        mixer = self._subject.module.config.mixer
        first = ATTENTION if MIXERS[mixer].is_attention else mixer
        return {first: "attention", CROSS: "cross", FEED_FORWARD: "feed_forward"}

    def products(self, head: HeadRef) -> Mapping[str, tuple[CallPlace, Rows]]:
        """The products that give a head's q, k and v, and which of their rows are the head's."""
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
        """What reads the units of each feed-forward part."""
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
        """What sends tokens to experts, by layer."""
        parts = enumerate(block.feed_forward for block in self._blocks(stack))
        found: dict[int, nn.Module] = {at: one.router for at, one in parts if isinstance(one, Experts)}
        if not found:
            raise _no_experts()
        return found

    def unrolled(self, run: Callable[[], object]) -> tuple[str, list[tuple[Tensor, Tensor | None]]]:
        """The title of the mixer, and of each layer its weights on the last text, and those of a softmax."""
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
        return mixer.title, found

    def _blocks(self, stack: Stack) -> tuple[Block, ...]:
        found = tuple(block for block in self._subject.blocks(stack) if isinstance(block, Block))
        if not found:
            raise _no_stack(stack)
        return found


class _PartPlaces(TypedDict):
    """Where a part reads the stream, what its last product reads, and where that gives."""

    reads: CallPlace | None
    inside: CallPlace | None
    gives: CallPlace


def _own_places(module: nn.Module) -> _PartPlaces:
    place, inside = CallPlace(module=module), None
    if isinstance(module, FeedForward):
        inside = CallPlace(module=module.down)
    elif isinstance(module, SelfAttention | CrossAttention):
        inside = CallPlace(module=module.output)
    return {"reads": place, "inside": inside, "gives": place}


def _groups(module: SelfAttention | CrossAttention) -> Iterator[set[int]]:
    """The query heads that read each key-value head."""
    groups = module.layout.groups
    return ({head for head, one in enumerate(groups) if one == k} for k in range(module.n_kv_heads))


class _ForeignParts:
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

    def ways(self, stack: Stack, layer: int) -> Mapping[str, "_PartPlaces"]:
        anatomy, keys = self._anatomy, self._keys(stack)
        key = keys[layer]
        sites: dict[str, SiteKey] = {ATTENTION: key, CROSS: ("cross", key[1])}
        found: dict[str, _PartPlaces] = {}
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
        """What reads the units of a layer; None for experts, and where they are not found."""
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

    def unrolled(self, run: Callable[[], object]) -> tuple[str, list[tuple[Tensor, Tensor | None]]]:
        raise _has_attention()

    @cached_property
    def _width(self) -> int:
        """How many numbers the stream has."""
        return _width_of(next(iter(self._anatomy.projections.values())).module)

    def _keys(self, stack: Stack) -> list[SiteKey]:
        return sorted(key for key in self._anatomy.blocks if key[0] == stack)


_MOST_PRODUCTS = 3
"""Of a feed-forward part without experts: up, gate and down."""


def _width_of(product: nn.Module) -> int:
    """How many numbers a product gives."""
    return len(matrix_of(product))


def _last_called(products: Sequence[nn.Module], run: Callable[[], object]) -> list[nn.Module]:
    """Products in the order in which a pass comes to each for the last time."""
    called: dict[nn.Module, None] = {}

    def note(module: nn.Module, *_: object) -> None:
        called.pop(module, None)
        called[module] = None

    handles = [one.register_forward_hook(note) for one in products]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
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


@contextmanager
def _found_weights(module: Transformer) -> Iterator[list[Tensor]]:
    """A list that gets the weights by which the next pass copies, [B, H, T, S]; nothing without heads."""
    kept: list[Tensor] = []

    def after(_: nn.Module, __: object, choices: dict[str, Any], ___: object) -> None:
        kept.extend(choices["found"])

    handle = module.decoder[-1].get_submodule("cross").register_forward_hook(after, with_kwargs=True)
    try:
        yield kept
    finally:
        handle.remove()


def _learned(tensor: Tensor) -> Numbers:
    """What a model learned, float64."""
    numbers: Numbers = exact(tensor.detach()).cpu().numpy()
    return numbers


def _array(tensor: Tensor) -> Numbers:
    """What was computed for one text, float64, without the axis of the batch."""
    numbers: Numbers = exact(_finite(tensor.detach()))[0].cpu().numpy()
    return numbers


def _rows(tensor: Tensor) -> Numbers:
    """What was computed row by row, float64; −inf where a mask forbids a score."""
    numbers: Numbers = exact(tensor.detach()).cpu().numpy()
    return numbers


def _finite(found: Tensor) -> Tensor:
    """What a part of the model computed; raises NotFiniteError where it is NaN or infinite."""
    if bool(torch.isfinite(found).all()):
        return found
    raise NotFiniteError(
        "What the model computes on this text is not finite: parts of it are NaN or infinite.",
        expected="finite numbers",
        action="Its weights are damaged, or too large: attnscope info says which. Open it from an "
        "undamaged copy.",
    )


def routes_of(result: Any, n_tokens: int) -> tuple[Numbers, Numbers]:
    """The weights of experts and p, both [n_tokens, n_experts], of what a router of the library gave.

    Most give logits, the weights of the k best and their numbers; Switch gives one-hot rows, of which those
    beyond an expert's capacity are 0, the weight, and logits.
    """
    first, second, third = result
    if third.is_floating_point():
        logits, weights = third, first.to(second.dtype) * second
    else:
        logits = first
        weights = torch.zeros_like(logits, dtype=second.dtype).scatter(-1, third, second)
    rows = [exact(one).reshape(-1, one.shape[-1])[-n_tokens:].cpu() for one in (weights, logits)]
    return _finite(rows[0]).numpy(), _finite(rows[1].softmax(dim=-1)).numpy()


@contextmanager
def _routed(routers: Mapping[int, nn.Module]) -> Iterator[dict[int, Any]]:
    """What each router gives in the pass that follows; raises UserError for one that is not known."""
    seen: dict[int, Any] = {}

    def note(layer: int, module: nn.Module, result: Any) -> None:
        is_known = isinstance(result, tuple) and len(result) == 3
        if not is_known or not all(isinstance(one, Tensor) for one in result):
            raise UserError(
                f"How {type(module).__name__} chooses experts is not known.",
                expected="a router that gives its logits, weights and the chosen experts",
            )
        seen[layer] = tuple(one.detach() for one in result)

    with ExitStack() as stack:
        for layer, module in routers.items():
            hook = module.register_forward_hook(lambda part, _, out, at=layer: note(at, part, out))
            stack.callback(hook.remove)
        yield seen


# Watching one pass.


class _Seen:
    """What places read and gave in one pass, of the last text of the batch; float64 [n_tokens, n]."""

    def __init__(self) -> None:
        self.read_at: dict[CallPlace, Tensor] = {}
        self.given_at: dict[CallPlace, Tensor] = {}

    def read(self, place: CallPlace) -> Numbers:
        """What a place read; raises UserError where the pass never came there."""
        return self._of(self.read_at, place)

    def given(self, place: CallPlace) -> Numbers:
        """What a place gave."""
        return self._of(self.given_at, place)

    def is_read(self, place: CallPlace, x: Numbers) -> bool:
        """Whether a place read exactly this stream."""
        return place in self.read_at and np.array_equal(self.read(place), x)

    def _of(self, found: Mapping[CallPlace, Tensor], place: CallPlace) -> Numbers:
        if place not in found:
            raise UserError(
                f"A part of the model ({type(place.module).__name__}) was not used on this text.",
                expected="a model that uses each of its layers",
            )
        numbers: Numbers = exact(_finite(found[place])).cpu().numpy()
        return numbers.reshape(-1, numbers.shape[-1])


@contextmanager
def _watched(*, reads: Sequence[CallPlace] = (), gives: Sequence[CallPlace] = ()) -> Iterator[_Seen]:
    """What places read and give in the pass that follows."""
    seen = _Seen()
    with ExitStack() as stack:
        for module in dict.fromkeys(place.module for place in (*reads, *gives)):
            read = {place.call: place for place in reads if place.module is module}
            given = {place.call: place for place in gives if place.module is module}
            before, after = _hooks(seen, read, given)
            stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(after).remove)
        yield seen


def _hooks(
    seen: _Seen, read: Mapping[int, CallPlace], given: Mapping[int, CallPlace]
) -> tuple[Callable[..., None], Callable[..., None]]:
    calls: Counter[str] = Counter()

    def before(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        place = read.get(calls["read"])
        calls["read"] += 1
        if place is not None:
            stream = arguments[0] if arguments else named["hidden_states"]
            seen.read_at[place] = _last_text(one_stream(module, stream))

    def after(module: nn.Module, __: object, result: object) -> None:
        place = given.get(calls["given"])
        calls["given"] += 1
        if place is not None:
            seen.given_at[place] = _last_text(one_stream(module, first_tensor(result)))

    return before, after


def _last_text(x: Tensor) -> Tensor:
    """The last text of a batch; layers that flatten one text give its tokens row by row."""
    return (x if x.ndim < 3 else x[-1]).detach()


def _row_by_row(seen: _Seen, place: CallPlace | None, n_tokens: int) -> Numbers | None:
    """What a place read, where that is a row for each token."""
    found = None if place is None else seen.read(place)
    return found if found is not None and len(found) == n_tokens else None


@contextmanager
def _norms_behind(
    seen: _Seen, places: Sequence[CallPlace], norms: Iterable[nn.Module]
) -> Iterator[dict[CallPlace, Tensor]]:
    """A table of what norms make of the very tensors that places give."""
    found: dict[CallPlace, Tensor] = {}

    def after(_: nn.Module, arguments: tuple[Any, ...], result: Tensor) -> None:
        for place in places:
            given = seen.given_at.get(place)
            if arguments and given is not None and given.data_ptr() == arguments[0].data_ptr():
                found[place] = _last_text(result)

    with ExitStack() as stack:
        for norm in norms:
            stack.callback(norm.register_forward_hook(after).remove)
        yield found


def _is_norm_of(x: Numbers, read: Numbers, given: Numbers) -> bool:
    """Whether a norm is of rows such as those of x, and changes them."""
    return read.shape == given.shape == x.shape and not np.array_equal(read, given)


@contextmanager
def _last_read(module: nn.Module | None) -> Iterator[list[Numbers]]:
    """A list that gets what a module reads, row by row."""
    kept: list[Numbers] = []

    def before(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        if arguments:
            kept.append(_rows(arguments[0].reshape(-1, arguments[0].shape[-1])))

    handle = None if module is None else module.register_forward_pre_hook(before)
    try:
        yield kept
    finally:
        if handle is not None:
            handle.remove()


def _is_sum(x: Numbers, given: Mapping[str, Numbers], dtype: torch.dtype) -> bool:
    """Whether every layer leaves what it read plus what its parts gave."""
    error = float(np.abs(x[1:] - x[:-1] - sum(given.values())).max(initial=0.0))
    return error <= _SUM_TOLERANCES.get(dtype, 2e-2) * float(np.abs(x).max(initial=0.0))


def _dtype_of(network: object) -> torch.dtype:
    module = getattr(network, "module", None)
    first = next(module.parameters(), None) if isinstance(module, nn.Module) else None
    return torch.float32 if first is None else first.dtype
