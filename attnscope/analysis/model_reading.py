"""The data a question gets from a model: streams, projections, probabilities, units.

Our own models and those of Hugging Face's library are watched alike, at *places* (`models/passes.py`): a
module and the number of its call in one pass. What is watched is what the model itself computed, in its own
precision, handed on as float64.

| symbol | meaning                                                | shape                        |
|--------|--------------------------------------------------------|------------------------------|
| x      | the stream: what a layer reads, and what the last left  | [n_layers + 1, n_tokens, d]  |
| given  | what a part of a layer adds                            | [n_layers, n_tokens, d]      |
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from attnscope.analysis.model_adapter import ForeignParts, OwnParts, OwnSubject, predicting_stack
from attnscope.analysis.watched_pass import (
    first_tensor,
    found_weights,
    is_norm_of,
    joined_parts,
    known_finite,
    last_read,
    norms_behind,
    numbers_in,
    numbers_of_text,
    predicting_tokens,
    routed,
    routes_of,
    row_by_row,
    tokens_of_stack,
    watched,
)
from attnscope.errors import UserError
from attnscope.models import Inputs, Model, OwnNetwork, Pass, finite, knowing, log_probabilities
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.passes import evaluating_tokens, hidden_stream
from attnscope.nn import OffsetScoring, RampScoring, Transformer, exact, open_probability
from attnscope.nn.block import Block
from attnscope.nn.embedding_and_head import CopyingHead
from attnscope.nn.recurrent import Recurrent
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
from attnscope.records.charts import Answer
from attnscope.records.interventions import Interventions
from attnscope.records.models import Form, ModelInfo, needs_model
from attnscope.records.outputs import WRITING
from attnscope.records.sites import STACKS, Gates, HeadRef, SiteKey, Stack, check_heads
from attnscope.records.tokens import Token, Tokens
from attnscope.schemes.masks import MASKS
from attnscope.trace.record import GateProbe, SiteRecord, TraceProbe, site_weights

_N_BEST = 8
SpanSite = TypeVar("SpanSite", RampScoring, OffsetScoring)
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
    """Ask a model the question; raises UserError, in one sentence, for one without the part it needs.

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

    @property
    def source(self) -> Tokens:
        """The text as it is read."""
        return self._inputs.source

    def stream(self, stack: str = AUTO) -> Numbers:
        """`Streams.x` alone, from a pass that watches nothing else."""
        layers = self._parts.layers(_asked_stack(self._network.form, stack))
        with watched(reads=layers, gives=layers[-1:]) as seen:
            self._run()
        return np.stack([*(seen.read(place) for place in layers), seen.given(layers[-1])])

    def streams(self, stack: str = AUTO) -> Streams:
        parts, of_stack = self._parts, _asked_stack(self._network.form, stack)
        layers, added = parts.layers(of_stack), parts.added(of_stack)
        every = [place for places in added.values() for place in places]
        norms = dict.fromkeys(norm.module for place in layers for norm in parts.norms(place))
        with (
            watched(reads=layers, gives=(*layers, *every)) as seen,
            norms_behind(seen, every, norms) as ends,
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
        if not is_sum:
            scaled = _scaled(x, given)
            if _is_sum(x, scaled, _dtype_of(self._network)):
                given, is_sum = scaled, True
        tokens = tokens_of_stack(self._inputs, of_stack)
        return Streams(stack=of_stack, tokens=tokens, x=x, added=given, is_sum=is_sum)

    def passage(self, layer: int, stack: str = AUTO) -> Passage:
        parts, of_stack = self._parts, _asked_stack(self._network.form, stack)
        layers = parts.layers(of_stack)
        layer = min(layer, len(layers) - 1)
        block, ways, norms = layers[layer], parts.ways(of_stack, layer), parts.norms(layers[layer])
        reads = [
            place for way in ways.values() for place in (way["reads"], way["inside"]) if place is not None
        ]
        gives = [way["gives"] for way in ways.values()]
        with watched(reads=[block, *reads, *norms], gives=[block, *gives, *norms]) as seen:
            self._run()
        x, after = seen.read(block), seen.given(block)
        known = [(seen.read(one), seen.given(one)) for one in norms if one in seen.given_at]
        found = joined_parts(
            x,
            after,
            [
                PartPath(
                    name=name,
                    reads=row_by_row(seen, way["reads"], len(x)),
                    inside=row_by_row(seen, way["inside"], len(x)),
                    gives=seen.given(way["gives"]),
                )
                for name, way in ways.items()
            ],
            [norm for norm in known if is_norm_of(x, *norm)],
            _SUM_TOLERANCES.get(_dtype_of(self._network), 2e-2),
        )
        is_reversible = isinstance(block.module, Block) and block.module.is_reversible
        return Passage(
            stack=of_stack,
            tokens=tokens_of_stack(self._inputs, of_stack),
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
        block = parts.layers(_asked_stack(self._network.form, AUTO))[-1]
        norms = parts.last_norms()
        with watched(reads=norms, gives=[block, *norms]) as seen, last_read(parts.output()) as read:
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
            p=log_probabilities(logits, is_each=network.info.tells_each).exp().numpy(),
            best=tuple((answer(id).piece, id) for id in best),
            is_of_whole=network.output_kind == "class" and len(places) == 1,
        )

    def projections(self) -> Projections:
        head = self._asked_head()
        products = self._parts.products(head)
        with watched(gives=tuple(place for place, _ in products.values())) as seen:
            self._run()
        numbers = {name: seen.given(place)[:, rows] for name, (place, rows) in products.items()}
        queries, keys = _tokens_of_head(self._inputs, head)
        return Projections(head=head, query_tokens=queries, key_tokens=keys, **numbers)

    def next_tokens(self) -> NextTokens:
        kind = self._network.output_kind
        if kind not in WRITING or self.model.reads != "text":
            raise UserError(
                f"{self.model.name} does not predict the next token of a text.",
                expected="a causal language model, or a translation model",
                action="Open another model for this.",
            )
        network = self._network
        n_memory = network.config.memory_tokens if isinstance(network, OwnNetwork) else 0
        tokens = self.tokens[n_memory:]  # tokens in front of the text are never predicted
        if len(tokens) < 2:
            raise UserError("The text has only one token.", expected="a longer text")
        return NextTokens(
            tokens=tokens[1:],
            positions=tuple(range(n_memory, n_memory + len(tokens) - 1)),
            is_second=kind == "translation",
        )

    def log_p(self, positions: Sequence[int]) -> Numbers:
        found: Numbers = log_probabilities(self._done.logits(list(positions))).cpu().numpy()
        return found

    def units(self, stack: str = AUTO) -> Units:
        of_stack = _asked_stack(self._network.form, stack)
        places = self._parts.inner(of_stack)
        with watched(reads=places) as seen:
            self._run()
        activations = tuple(seen.read(place) for place in places)
        return Units(stack=of_stack, tokens=tokens_of_stack(self._inputs, of_stack), activations=activations)

    def routing(self, stack: str = AUTO) -> Routing:
        of_stack = _asked_stack(self._network.form, stack)
        tokens = tokens_of_stack(self._inputs, of_stack)
        routers = self._parts.routers(of_stack)
        with routed(routers) as seen:
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
        record = self._traced([head.site_key])[1][head.site_key]
        row = slice(head.head, head.head + 1)
        group = head.head * len(record.k) // len(record.q)
        parts = (
            known_finite(record.q[head.head]),
            known_finite(record.k[group]),
            site_weights(record, row)[0],
        )
        q, k, weights = (exact(one).cpu().numpy() for one in parts)
        queries, keys = _tokens_of_head(self._inputs, head)
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
        joined_parts: list[Tensor] = []
        contexts: list[Tensor] = []

        def attends(_: nn.Module, given: tuple[Any, ...], out: Any) -> None:
            asked.append((given[0][-1], given[1][-1]))
            contexts.append(first_tensor(out)[-1])

        def reads(_: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
            joined_parts.append(given[0][-1].reshape(-1, given[0].shape[-1]))
            sums.append(out[-1].reshape(-1, out.shape[-1]))

        sums: list[Tensor] = []
        with ExitStack() as stack:
            stack.callback(module.cross.register_forward_hook(attends).remove)
            stack.callback(module.readout.register_forward_hook(reads).remove)
            done, records = self._traced([head.site_key])
        queries, keys = _tokens_of_head(self._inputs, head)
        n = len(queries)
        c = torch.cat(contexts)[-n:]  # a head that gives its mean is run through twice: the last pass counts
        record = records[head.site_key]
        weights = site_weights(record, slice(head.head, head.head + 1))[0]
        scores = weights.log() + record.lse[head.head][:, None]
        p = log_probabilities(done.logits(list(range(n)))).exp()
        best = p.topk(min(_N_BEST, p.shape[-1]), dim=-1)
        return Decoded(
            head=head,
            source_tokens=keys,
            target_tokens=queries,
            h=numbers_in(asked[-1][1]),
            s=numbers_in(torch.cat([state for state, _ in asked])[-n:]),
            c=numbers_in(c),
            joined=numbers_in(torch.cat(joined_parts)[-n:]),
            t=numbers_in((c + torch.cat(sums)[-n:]).tanh()),
            scores=numbers_in(scores),
            weights=numbers_in(weights),
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
            mixer=found[0].title,
            formula=found[0].formula,
            weights=tuple(numbers_of_text(weights) for weights, _ in found[1]),
            softmax=tuple(None if softmax is None else numbers_of_text(softmax) for _, softmax in found[1]),
        )

    def spans(self) -> Spans:
        head = self._asked_head()
        found = _learned_sites(self._model, head, RampScoring, "learned no span", "copy-spans")
        own = found[head.site_key]
        spans = {key: numbers_in(site.spans()) for key, site in found.items()}
        return Spans(head=head, limit=own.span_limit, ramp=float(own.span_ramp), of_sites=spans)

    def open_offsets(self) -> OpenOffsets:
        head = self._asked_head()
        found = _learned_sites(self._model, head, OffsetScoring, "learned no mask", "copy-offsets")
        masks: dict[SiteKey, Numbers] = {}
        p_open: dict[SiteKey, Numbers] = {}
        for key, site in found.items():
            with torch.no_grad():
                masks[key] = numbers_in(site.mask())
                p = numbers_in(open_probability(site.log_alpha()))
            p_open[key] = np.concatenate([np.ones((len(p), 1)), p], axis=1)
        return OpenOffsets(head=head, masks=masks, p_open=p_open)

    def copied(self) -> Copied:
        network, target = self._network, self._inputs.target
        module = network.module if isinstance(network, OwnNetwork) else None
        head = None if module is None else module.head
        if not isinstance(module, Transformer) or not isinstance(head, CopyingHead) or target is None:
            raise UserError(
                f"{self.model.name} writes every token from its vocabulary and copies none.",
                expected="a model with copies_source",
                action="Train the recipe reports.",
            )
        n, d = len(target), module.config.d_model
        with evaluating_tokens(module, self._inputs.n_tokens), found_weights(module) as found:
            hidden = hidden_stream(module, self._inputs, self._probe)[0]
            log_p = log_probabilities(module.logits(hidden)).cpu()
            generator = torch.full_like(log_p, -torch.inf)
            generator[:, : module.config.vocab_size] = log_probabilities(module.logits(hidden[:, :d])).cpu()
            p_write = exact(head.copy_gate(hidden[:, :d])).cpu()[:, 0].sigmoid()
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
        records = self._traced(keys)[1]
        weights = {key: exact(site_weights(records[key])).cpu().numpy() for key in keys}
        return Recalled(
            head=head,
            tokens=tokens_of_stack(self._inputs, head.stack),
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

    @cached_property
    def _parts(self) -> "OwnParts | ForeignParts":
        network = self._network
        if isinstance(network, HuggingFaceNetwork):
            return ForeignParts(network, self._run)
        return OwnParts(OwnSubject(self._model.own.module))

    @cached_property
    def _done(self) -> Pass:
        return self._run()

    def _run(self) -> Pass:
        return self._network.run(self._inputs, self._probe)

    def _traced(self, sites: Iterable[SiteKey]) -> tuple[Pass, Mapping[SiteKey, SiteRecord]]:
        probe = TraceProbe(self._model.sites, self._gates, wanted=frozenset(sites), edits=self._edits)
        return self._network.run(self._inputs, probe), probe.records


def _asked_stack(form: Form, stack: str) -> Stack:
    return next((one for one in STACKS if one == stack), predicting_stack(form))


def _tokens_of_head(inputs: Inputs, head: HeadRef) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    if head.stack == "cross":
        return tokens_of_stack(inputs, "decoder"), tokens_of_stack(inputs, "encoder")
    return tokens_of_stack(inputs, head.stack), tokens_of_stack(inputs, head.stack)


def _first_head(model: Model) -> HeadRef | None:
    return next((head for site in model.sites for head in site.heads), None)


def _learned_sites(
    model: Model, head: HeadRef, kind: type[SpanSite], lacks: str, recipe: str
) -> dict[SiteKey, SpanSite]:
    """Every site whose heads learned their span; raises UserError if `head` is at none of them."""
    network = model.network
    found: dict[SiteKey, SpanSite] = {}
    if isinstance(network, OwnNetwork) and network.config.span_limit:
        for site in model.sites:
            if site.stack in ("encoder", "decoder"):
                module = OwnSubject(network.module).block(site.key).attention.get_submodule("scoring")
                if isinstance(module, kind):
                    found[site.key] = module
    if head.site_key not in found:
        raise UserError(
            f"{head.stack} {head.label} of this model {lacks}.",
            expected=f'a self-attention head of a model with span_limit and span_kind = "{kind.name}"',
            action=f"Train the recipe {recipe}.",
        )
    return found


def _is_sum(x: Numbers, given: Mapping[str, Numbers], dtype: torch.dtype) -> bool:
    """Whether every layer outputs the sum of its input and its parts' outputs."""
    error = float(np.abs(x[1:] - x[:-1] - sum(given.values())).max(initial=0.0))
    return error <= _SUM_TOLERANCES.get(dtype, 2e-2) * float(np.abs(x).max(initial=0.0))


def _scaled(x: Numbers, given: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Outputs of the parts times the one factor that fits best, such as Granite's `residual_multiplier`."""
    total = sum(given.values(), np.zeros_like(x[1:]))
    factor = ((x[1:] - x[:-1]) * total).sum() / max(float((total * total).sum()), np.finfo(np.float64).tiny)
    return {name: part * factor for name, part in given.items()}


def _dtype_of(network: object) -> torch.dtype:
    module = getattr(network, "module", None)
    first = next(module.parameters(), None) if isinstance(module, nn.Module) else None
    return torch.float32 if first is None else first.dtype
