"""Direct logit attribution: what each head and feed-forward layer adds to the difference of two logits.

| symbol | meaning                                                        | shape      |
|--------|----------------------------------------------------------------|------------|
| u      | W_U[answer] − W_U[other], pulled back through frozen norms     | [d_model]  |
| value  | part · u                                                       | one number |

Elhage et al. 2021 ("A mathematical framework for transformer circuits"). Every norm on the way keeps the
scale it had in this run, which makes the way from a part to the logits linear: the values of all parts, of
the norms' biases and of the output's bias add up to logit(answer) − logit(other). A part recomputed with a
norm of its own would not. What a part does through later layers is not counted here.

Of our own Transformer: what one pass wrote into the stream at one position, part by part.

| symbol  | meaning                                            | shape              |
|---------|----------------------------------------------------|--------------------|
| vectors | what each part adds to the stream, float64         | [n_parts, d_model] |
| inputs  | what a norm read at this position, float64         | [d_model]          |

The parts of the stack that predicts, in order, with the norms that the stream itself passes through: all of
a post-norm model, the last one of a pre-norm model. A head's part is its output times its own columns of the
projection; the projection's bias is a part of its own.

Of models of Hugging Face's library: parts by one frozen pass.

`huggingface/frozen.py` says what is frozen and how linearity is proven; here each source becomes a
contribution, gradient times source, and the sum is compared with the difference that the model itself gives.

| symbol | meaning                                                | shape             |
|--------|--------------------------------------------------------|-------------------|
| row    | the logits at the chosen position                      | [n_answers]       |
| value  | Σ gradient · source, in logits; for heads one for each | one number, or [H]|
| reads  | Σ over heads and queries of a_ij (v_j · gradient_i)    | [n_tokens]        |

What heads add is a sum over the tokens they read, so that of a picture `reads` says what they read at each
patch, and adds up to all heads' values.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attnscope.analysis.answers import ClassSubject, reads_classes, told_position
from attnscope.analysis.influence import check_position
from attnscope.analysis.model_adapter import (
    OwnSubject,
    Subject,
    TensorGates,
    TokenBatch,
    gate_tensors,
    own_subject,
    predicting_stack,
    telling_subject,
)
from attnscope.analysis.watched_pass import WatchedCalls, batch_of, predicting_tokens, watched_heads
from attnscope.errors import UserError
from attnscope.models import Inputs, Model, finite
from attnscope.models.huggingface.anatomy import anatomy_of, not_known
from attnscope.models.huggingface.frozen import FrozenPass, bent_step
from attnscope.models.huggingface.network import HuggingFaceNetwork, takes_argument
from attnscope.models.huggingface.proof import TOLERANCES
from attnscope.models.passes import hooked
from attnscope.nn import NoHeads, Norm, exact
from attnscope.nn.block import Block
from attnscope.records.causes import Attribution, Contribution, PartKind
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site, SiteKey, Stack, require_heads
from attnscope.schemes.norms import NORMS

Choose = Callable[[Tensor], tuple[int, int]]
"""From a row of logits to the two answers that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartsFound:
    """All contributions, the two answers, their difference, what was frozen, and `reads` for a picture."""

    contributions: list[Contribution]
    answers: tuple[int, int]
    difference: float
    note: str = ""
    reads: NDArray[np.float32] | None = None


def foreign_parts(
    network: HuggingFaceNetwork,
    inputs: Inputs,
    position: int,
    choose: Choose,
    probe: TensorGates,
) -> PartsFound:
    """All contributions at one position, or to the single row of a class of the whole input.

    A probe that watches calls makes `reads` as well.

    Raises UserError, by name, for a model in which more than norms and the head's activation stands between
    its parts and its output, or whose parts do not add up.
    """
    model, anatomy = network.module, anatomy_of(network)
    if inputs.target is None and network.form == "encoder-decoder":
        inputs = network.own_target(inputs, ())
    lacking = next((key for key in anatomy.blocks if key not in anatomy.feed_forwards), None)
    if lacking is not None:
        raise not_known(network, f"the feed-forward part of {lacking[0]} layer {lacking[1]} was not found")
    taken = FrozenPass(model, anatomy, has_one_embedding=network.info.reads == "picture")
    arguments = network.arguments(inputs)
    place = position
    if takes_argument(model, "logits_to_keep"):
        arguments["logits_to_keep"] = torch.tensor([position], device=network.device)
        place = 0
    raw: list[Tensor] = []
    with torch.enable_grad(), network.attached.probing(probe), taken.running():
        stop = _watch_products(model, raw)
        try:
            logits = model(**arguments).logits
            row = logits[0] if network.task.kind.is_pooled else logits[0, place]  # [n_answers]
        finally:
            stop()
        answers = choose(row.detach().float())
        values = [source.value for source in taken.sources]
        difference = _difference(row, raw, place, answers)
    bent = bent_step(difference, values)
    if bent:
        strange = f" (the norm {taken.strange[0]} has a form of its own)" if taken.strange else ""
        what = f"{bent} stands between its parts and its output, and is not linear{strange}"
        raise not_known(network, what)
    gradients = torch.autograd.grad(difference, values, allow_unused=True)
    found = list(_library_contributions(network, taken, gradients, answers))
    _refuse_detours(network, found)
    said = float(exact(row.detach())[answers[0]] - exact(row.detach())[answers[1]])
    _prove(network, found, said, row.detach()[list(answers)])
    return PartsFound(
        contributions=found,
        answers=answers,
        difference=said,
        note=_note(taken, model),
        reads=_reads(taken, gradients, probe) if isinstance(probe, WatchedCalls) else None,
    )


def _watch_products(model: Any, raw: list[Tensor]) -> Callable[[], None]:
    """Record the output of the product behind the logits, before the library caps it."""
    output = model.get_output_embeddings()
    if output is None or getattr(model.config, "final_logit_softcapping", None) is None:
        return lambda: None
    handle = output.register_forward_hook(lambda _, __, logits: raw.append(logits))
    remove: Callable[[], None] = handle.remove
    return remove


def _difference(row: Tensor, raw: list[Tensor], place: int, answers: tuple[int, int]) -> Tensor:
    """logit(answer) − logit(other); where logits are capped, with this run's factors of the cap."""
    first, second = (row[answer] for answer in answers)
    if raw:
        uncapped = [raw[-1][0, place, answer] for answer in answers]
        factors = [
            torch.where(one == 0, 1.0, said / one).detach()
            for said, one in zip((first, second), uncapped, strict=True)
        ]
        first, second = uncapped[0] * factors[0], uncapped[1] * factors[1]
    return first - second


def _library_contributions(
    network: HuggingFaceNetwork,
    taken: FrozenPass,
    gradients: tuple[Tensor | None, ...],
    answers: tuple[int, int],
) -> Iterator[Contribution]:
    """Contributions of each source that reaches the output, and of its heads, in the order of the model."""
    stack = predicting_stack(network.form)
    sites = {site.key: site for site in network.sites}
    for source, gradient in zip(taken.sources, gradients, strict=True):
        if gradient is None:
            continue
        shares = exact(gradient) * exact(source.value.detach())
        if source.kind == "heads" and source.site is not None:
            yield from _head_shares(sites[source.site], shares, has_others=network.form == "encoder-decoder")
            continue
        layer = -1 if source.site is None else source.site[1]
        kind = "bias" if source.kind == "heads" else source.kind
        yield Contribution(label=source.label, kind=kind, value=float(shares.sum()), stack=stack, layer=layer)
    constant = getattr(network.module, "final_logits_bias", None)
    if isinstance(constant, Tensor) and bool(constant.any()):
        bias = exact(constant.detach()).flatten()
        value = float(bias[answers[0]] - bias[answers[1]])
        yield Contribution(label="output bias", kind="bias", value=value, stack=stack)


def _head_shares(site: Site, shares: Tensor, *, has_others: bool) -> Iterator[Contribution]:
    """Contribution of each head of a site; names tell heads apart where several stacks have them."""
    for head, share in zip(
        site.heads,
        shares.reshape(-1, site.n_heads, shares.shape[-1] // site.n_heads).sum((0, 2)),
        strict=True,
    ):
        label = f"{site.stack} {head.label}" if has_others else head.label
        yield Contribution(
            label=label, kind="head", value=float(share), stack=site.stack, layer=site.layer, head=head
        )


def _reads(
    taken: FrozenPass, gradients: tuple[Tensor | None, ...], probe: WatchedCalls
) -> NDArray[np.float32]:
    """Inputs of all heads at each token."""
    total: Tensor | None = None
    for source, gradient in zip(taken.sources, gradients, strict=True):
        if source.kind != "heads" or source.site is None or gradient is None:
            continue
        seen, gate = probe.seen[source.site], probe.gate(source.site)
        a, v = seen.weights(), seen.values()  # [H, T, T], [H, T, D]
        of_heads = exact(gradient[0]).reshape(len(a[0]), len(v), -1).transpose(0, 1)  # [H, T, D]
        read = (a * (of_heads @ v.mT)).sum(1)  # [H, T]
        read = read if gate is None else read * exact(gate)[:, None]
        total = read.sum(0) if total is None else total + read.sum(0)
    if total is None:
        raise ValueError("no heads reach the output")
    return total.float().cpu().numpy()


def _refuse_detours(network: HuggingFaceNetwork, found: list[Contribution]) -> None:
    """Raise UserError when a layer of the stack that predicts does not reach the output on its own."""
    stack = predicting_stack(network.form)
    reached = {(one.stack, one.layer) for one in found if one.kind == "head"}
    for site in network.sites:
        if site.stack in (stack, "cross") and site.key not in reached:
            raise not_known(
                network, f"the heads of {site.stack} layer {site.layer} reach the output by others alone"
            )


def _prove(network: HuggingFaceNetwork, found: list[Contribution], said: float, logits: Tensor) -> None:
    total = sum(one.value for one in found)
    size = sum(abs(one.value) for one in found) + float(logits.float().abs().sum())
    allowed = TOLERANCES.get(network.module.dtype, 1e-4) / 10 * max(size, 1e-6)
    if not abs(total - said) <= allowed:
        raise not_known(
            network,
            f"they add up to {total:.6g} and not to the difference of {said:.6g} that the model gives",
        )


def _note(taken: FrozenPass, model: Any) -> str:
    """Everything frozen besides the norms, in words."""
    frozen = list(dict.fromkeys(taken.frozen))
    notes = []
    if frozen:
        notes.append(
            f"The output's own layer keeps the factor of its activation ({', '.join(frozen)}), as norms keep"
            " their scale."
        )
    if getattr(model.config, "final_logit_softcapping", None) is not None:
        notes.append("The cap on the logits keeps the factor that it had for each of the two.")
    return " ".join(notes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Addition:
    """One part: its name and the vector it adds."""

    label: str
    kind: PartKind
    vector: Tensor
    layer: int = -1
    head: HeadRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassedNorm:
    """A norm on the stream's way, with the scale it had in this run."""

    label: str
    module: Norm
    inputs: Tensor
    layer: int = -1

    def pull_back(self, direction: Tensor) -> Tensor:
        """The direction before the norm that has the same product as `direction` after it, scale frozen."""
        scheme = self.module.scheme
        scale, gain = scheme.scale(self.inputs, self.module), scheme.gain(self.module)
        before = direction * scale * (1.0 if gain is None else exact(gain.detach()))
        return before - before.mean() if scheme.is_centred else before

    @property
    def bias(self) -> Tensor | None:
        added = self.module.scheme.added(self.module)
        return None if added is None else exact(added.detach())


Part = Addition | PassedNorm


def stream_parts(
    subject: OwnSubject, batch: TokenBatch, position: int, gates: TensorGates | None = None
) -> tuple[list[Part], Tensor]:
    """The parts at one position of a batch of one, and the hidden stream there, [d_model].

    Raises UserError for a head with a layer of its own (BERT's), which no sum of parts goes through.
    """
    if subject.module.head.transform is not None:
        raise UserError(
            "The model's output passes through one more layer with an activation.",
            expected="logits that are a sum over the parts of the stream",
            action="Use activation patching or relevance for this model.",
        )
    if subject.module.config.copies_source:
        raise UserError(
            "The model may copy a token in the place of writing it.",
            expected="logits that are a sum over the parts of the stream",
            action="Use activation patching for this model, or the question Copy or write.",
        )
    _refuse_other_streams(subject)
    stack = predicting_stack(subject.form)
    blocks = [block for block in subject.blocks(stack) if isinstance(block, Block)]
    sites = [site.key for site in subject.sites if site.stack in (stack, "cross")]
    with subject.studying(), _watched(_watched_modules(subject, stack, blocks), position) as seen:
        with watched_heads(subject, sites) as joined:
            hidden = exact(subject.hidden(batch, gates)[0, position])
        parts = list(_embedding_parts(subject, batch, stack, position, seen))
        for layer, block in enumerate(blocks):
            parts += _block_parts(subject, block, stack, layer, position, joined, seen)
        final = subject.module.encoder_norm if stack == "encoder" else subject.module.decoder_norm
        if final is not None:
            parts.append(PassedNorm(label="last norm", module=final, inputs=seen[final][0]))
    return parts, hidden


def _refuse_other_streams(subject: OwnSubject) -> None:
    config = subject.module.config
    if not config.has_residual or (config.norm_place == "sandwich" and not NORMS[config.norm].is_nothing):
        raise UserError(
            "What the parts of this model add passes through a norm or replaces the stream.",
            expected="residuals, and norms before or after them (norm_place pre or post)",
            action="Use activation patching or relevance for this model.",
        )


def _watched_modules(subject: OwnSubject, stack: Stack, blocks: list[Block]) -> list[nn.Module]:
    module = subject.module
    embedding = module.encoder_embedding if stack == "encoder" else module.decoder_embedding
    final = module.encoder_norm if stack == "encoder" else module.decoder_norm
    found: list[nn.Module | None] = [final, None if embedding is None else embedding.norm]
    for block in blocks:
        found += [block.attention_norm, block.cross_norm, block.feed_forward_norm]
        found += [block.attention, block.cross, block.feed_forward]
    return [one for one in found if one is not None]


@contextmanager
def _watched(modules: list[nn.Module], position: int) -> Iterator[dict[nn.Module, tuple[Tensor, Tensor]]]:
    """Input and output of each module at one position of the first text, float64 [d_model]."""
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def after(module: nn.Module, arguments: tuple[Tensor, ...], result: Tensor) -> None:
        seen[module] = (exact(arguments[0][0, position].detach()), exact(result[0, position].detach()))

    handles = [module.register_forward_hook(after) for module in modules]
    with hooked(handles):
        yield seen


def _embedding_parts(
    subject: OwnSubject,
    batch: TokenBatch,
    stack: Stack,
    position: int,
    seen: dict[nn.Module, tuple[Tensor, Tensor]],
) -> Iterator[Part]:
    module, config = subject.module, subject.module.config
    ids = batch.ids if batch.target_ids is None else batch.target_ids
    scale = config.d_model**0.5 if config.scale_embeddings else 1.0
    token = exact(module.tokens.weight.detach()[ids[0, position]]) * scale
    yield Addition(label="token", kind="embedding", vector=token)
    embedding = module.encoder_embedding if stack == "encoder" else module.decoder_embedding
    if embedding is None:
        raise ValueError(f"the model has no {stack}")
    if embedding.positions is not None:
        yield Addition(
            label="position", kind="embedding", vector=exact(embedding.positions.weight.detach()[position])
        )
    elif (table := module.added_positions(ids)) is not None:
        row = table[0] if table.ndim == 3 else table
        yield Addition(label="position", kind="embedding", vector=exact(row[position]))
    if embedding.segments is not None:
        segment = 0 if batch.segments is None else int(batch.segments[0, position])
        vector = exact(embedding.segments.weight.detach()[segment])
        yield Addition(label="segment", kind="embedding", vector=vector)
    if embedding.norm is not None:
        yield PassedNorm(label="embedding norm", module=embedding.norm, inputs=seen[embedding.norm][0])


def _block_parts(
    subject: OwnSubject,
    block: Block,
    stack: Stack,
    layer: int,
    position: int,
    joined: dict[SiteKey, Tensor],
    seen: dict[nn.Module, tuple[Tensor, Tensor]],
) -> Iterator[Part]:
    """The parts of one layer; a post-norm layer's norms follow what they read."""
    steps: list[tuple[SiteKey | None, nn.Module | None, Norm | None]] = [
        ((stack, layer), block.attention, block.attention_norm),
        (("cross", layer), block.cross, block.cross_norm),
        (None, block.feed_forward, block.feed_forward_norm),
    ]
    for site, module, norm in steps:
        if module is None or norm is None:
            continue
        if site is None:
            yield Addition(
                label=f"L{layer} feed-forward", kind="feed-forward", vector=seen[module][1], layer=layer
            )
        elif isinstance(module, NoHeads):
            yield Addition(label=f"L{layer} {site[0]} bias", kind="bias", vector=seen[module][1], layer=layer)
        else:
            yield from _head_parts(subject, site, joined[site][0, position])
        if not block.is_pre:
            yield PassedNorm(label=f"L{layer} norm", module=norm, inputs=seen[norm][0], layer=layer)


def _head_parts(subject: OwnSubject, site: SiteKey, joined: Tensor) -> Iterator[Addition]:
    stack, layer = site
    projection = subject.projection(site)
    n_heads = next(one.n_heads for one in subject.sites if one.key == site)
    outputs = exact(joined).reshape(n_heads, -1)  # [H, D]
    weight = exact(projection.weight.detach()).reshape(-1, *outputs.shape)  # [d_model, H, D]
    vectors = torch.einsum("hd,mhd->hm", outputs, weight)
    has_others = any(one.stack == "cross" for one in subject.sites)
    for index in range(n_heads):
        head = HeadRef(stack=stack, layer=layer, head=index)
        label = f"{stack} {head.label}" if has_others else head.label
        yield Addition(label=label, kind="head", vector=vectors[index], layer=layer, head=head)
    if projection.bias is not None:
        label = f"L{layer} {stack} bias"
        yield Addition(label=label, kind="bias", vector=exact(projection.bias.detach()), layer=layer)


def attribute_logits(
    model: Model,
    text: str,
    target: str | None = None,
    *,
    position: int = -1,
    answer: int | None = None,
    other: int | None = None,
    gates: Gates = NO_GATES,
) -> Attribution:
    """Contribution of every part to logit(answer) − logit(other) at one position.

    `answer` None is the token, or the class, that the model says there, `other` None the one it would say
    next. Of a picture also what heads read at each patch (`Attribution.reads`). Raises UserError for models
    whose parts do not add up exactly (`stream_parts`, `foreign_parts`).
    """
    network = model.network
    inputs = model.encode(text, target)
    tokens = predicting_tokens(inputs)
    position = check_position(position, len(tokens))
    subject = _asked(model, inputs, position)
    tensors = gate_tensors(subject, gates) if gates else {}
    probe = WatchedCalls(tensors) if model.info.reads == "picture" else TensorGates(tensors)

    def choose(logits: Tensor) -> tuple[int, int]:
        return choose_answers(logits, answer, other)

    if isinstance(network, HuggingFaceNetwork):
        found = foreign_parts(network, inputs, position, choose, probe)
    else:
        if not model.own.config.has_sites:
            require_heads(model.sites)
        found = _own_parts(own_subject(model), batch_of(inputs, model.device), position, choose, probe)
    return Attribution(
        contributions=tuple(found.contributions),
        position=position,
        token=tokens[position],
        answer=network.answer(found.answers[0]),
        other=network.answer(found.answers[1]),
        difference=found.difference,
        note=found.note,
        reads=found.reads,
    )


def _asked(model: Model, inputs: Inputs, position: int) -> Subject:
    """The subject whose logits are attributed; raises UserError for a position without logits."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork) and reads_classes(model):
        told_position(model, inputs, position)
        return ClassSubject(network, inputs)
    return telling_subject(model)


def _own_parts(
    subject: OwnSubject, batch: TokenBatch, position: int, choose: Choose, probe: TensorGates
) -> PartsFound:
    """See `foreign_parts`, for a Transformer of this program."""
    parts, hidden = stream_parts(subject, batch, position, probe)
    with subject.studying():
        logits = subject.logits(hidden.to(subject.module.tokens.weight))
    answer, other = choose(logits)
    weight, bias = _direction(subject, answer, other)
    stack = predicting_stack(subject.form)
    contributions = _contributions(parts, weight, stack)
    if bias != 0.0:
        contributions.append(Contribution(label="output bias", kind="bias", value=bias, stack=stack))
    difference = float(exact(logits)[answer] - exact(logits)[other])
    return PartsFound(contributions=contributions, answers=(answer, other), difference=difference)


def choose_answers(logits: Tensor, answer: int | None, other: int | None) -> tuple[int, int]:
    """The two tokens to compare: those named, else the most probable ones; never twice the same."""
    if len(logits) < 2:
        raise UserError(
            "The model tells one number, and this compares two answers.",
            expected="a model with two labels or more",
            action="Use relevance for this model, which explains a single number.",
        )
    ranked = [int(id) for id in finite(logits).topk(min(3, len(logits))).indices]
    first = next(id for id in ranked if id != other) if answer is None else answer
    second = next(id for id in ranked if id != first) if other is None else other
    return first, second


def _direction(subject: OwnSubject, answer: int, other: int) -> tuple[Tensor, float]:
    head = subject.module.head
    matrix = subject.module.tokens.weight if head.weight is None else head.weight
    with torch.no_grad():
        bias = 0.0 if head.bias is None else float(head.bias[answer] - head.bias[other])
        return exact(matrix[answer]) - exact(matrix[other]), bias


def _contributions(parts: list[Part], direction: Tensor, stack: Stack) -> list[Contribution]:
    """From the last part to the first: each norm turns the direction into the one before it."""
    found: list[Contribution] = []
    for part in reversed(parts):
        if isinstance(part, Addition):
            found.append(
                Contribution(
                    label=part.label,
                    kind=part.kind,
                    value=float(part.vector @ direction),
                    stack=stack if part.head is None else part.head.stack,
                    layer=part.layer,
                    head=part.head,
                )
            )
            continue
        if part.bias is not None:
            found.append(
                Contribution(
                    label=f"{part.label} bias",
                    kind="bias",
                    value=float(part.bias @ direction),
                    stack=stack,
                    layer=part.layer,
                )
            )
        direction = part.pull_back(direction)
    return found[::-1]
