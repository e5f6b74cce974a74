"""Direct logit attribution for models of Hugging Face's library: parts by one frozen pass.

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
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.model_adapter import TensorGates, predicting_stack
from attnscope.analysis.watched_calls import WatchedCalls
from attnscope.models.huggingface.anatomy import anatomy_of, not_known
from attnscope.models.huggingface.frozen import FrozenPass, bent_step
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.huggingface.proof import TOLERANCES
from attnscope.models.huggingface.writer import takes_argument
from attnscope.models.inputs import Inputs
from attnscope.nn.precision import exact
from attnscope.records.attribution import Contribution
from attnscope.records.sites import Site

Choose = Callable[[Tensor], tuple[int, int]]
"""From a row of logits to the two answers that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartsFound:
    """Every contribution, the two answers, their difference, what was frozen, and `reads` of a picture."""

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
    """Every contribution at one position, or to the one row of a class of the whole input.

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
            row = logits[0] if network.task.is_pooled else logits[0, place]  # [n_answers]
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
    found = list(_contributions(network, taken, gradients, answers))
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
    """Keep what the product behind the output gives, before the library caps it."""
    output = model.get_output_embeddings()
    if output is None or getattr(model.config, "final_logit_softcapping", None) is None:
        return lambda: None
    handle = output.register_forward_hook(lambda _, __, logits: raw.append(logits))
    remove: Callable[[], None] = handle.remove
    return remove


def _difference(row: Tensor, raw: list[Tensor], place: int, answers: tuple[int, int]) -> Tensor:
    """logit(answer) − logit(other); where logits are capped, with the factors the cap had here."""
    first, second = (row[answer] for answer in answers)
    if raw:
        uncapped = [raw[-1][0, place, answer] for answer in answers]
        factors = [
            torch.where(one == 0, 1.0, said / one).detach()
            for said, one in zip((first, second), uncapped, strict=True)
        ]
        first, second = uncapped[0] * factors[0], uncapped[1] * factors[1]
    return first - second


def _contributions(
    network: HuggingFaceNetwork,
    taken: FrozenPass,
    gradients: tuple[Tensor | None, ...],
    answers: tuple[int, int],
) -> Iterator[Contribution]:
    """One for each source that reaches the output, one for each of its heads, in the order of the model."""
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
    """What each head of a site adds; where several stacks have heads, names tell them apart."""
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
    """What all heads read at each token."""
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
    """What else was frozen than norms, for people."""
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
