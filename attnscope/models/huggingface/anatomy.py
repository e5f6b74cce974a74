"""Where a model of the library has its layers, the products behind its heads, and its feed-forward parts.

Nothing is looked up by the kind of model. The product behind the heads of a site is the one that reads, to
the last bit, what the site's attention gave; a layer is the largest part of a list that holds the attention
of one layer alone; its feed-forward part goes by one of the names that the library uses. One module may serve
all layers (ALBERT), so calls are counted (`models/places.py`).

| symbol | meaning                                       | shape                             |
|--------|-----------------------------------------------|-----------------------------------|
| joined | head outputs side by side, gated              | [n_copies, n_tokens, H · d_value] |

What a norm of the library does, told by its numbers rather than by its class.

| symbol | meaning                                     | shape               |
|--------|---------------------------------------------|---------------------|
| x      | what the norm reads                         | [..., d]            |
| scale  | 1/σ, of LayerNorm or of RMSNorm             | [..., 1]            |
| weight | what it multiplies by: weight, or 1 + weight| [d]                 |

LayerNorm: Ba et al. 2016; RMSNorm: Zhang and Sennrich 2019; Gemma's multiplies by 1 + weight.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.huggingface.proof import example_of, run_example
from attnscope.models.places import CallPlace
from attnscope.nn.edits import Call
from attnscope.nn.gating import QuietProbe
from attnscope.records.sites import SiteKey, Stack

_CLOSE = 1e-4


def is_norm(part: nn.Module) -> bool:
    return isinstance(part, nn.LayerNorm) or "Norm" in type(part).__name__


@dataclass(frozen=True, slots=True, eq=False)
class NormForm:
    """What a norm does besides its scale: whether it takes the mean away, and its weight, None for none."""

    is_centred: bool
    weight: Tensor | None
    epsilon: float

    def apply(self, x: Tensor) -> Tensor:
        """The norm of `x` without its bias, the scale taken as a constant; float32."""
        wide = x.float()
        wide = wide - wide.mean(dim=-1, keepdim=True) if self.is_centred else wide
        scale = (wide.detach().square().mean(dim=-1, keepdim=True) + self.epsilon).rsqrt()
        return wide * scale if self.weight is None else wide * scale * self.weight


def norm_form(part: Any, x: Tensor, output: Tensor) -> NormForm | None:
    """The form in which a norm makes `output` of `x`; None for one of a form that is not known."""
    bias = getattr(part, "bias", None)
    for form in _forms(part):
        found = form.apply(x.detach())
        found = found if bias is None else found + bias.detach().float()
        if found.shape == output.shape and bool((found - output).abs().max() <= _CLOSE * output.abs().max()):
            return form
    return None


def _forms(part: Any) -> Iterator[NormForm]:
    names = ("eps", "variance_epsilon", "epsilon")
    own = getattr(part, "weight", None)
    weight = None if own is None else own.detach().float()
    epsilon = next((getattr(part, name) for name in names if getattr(part, name, None) is not None), 0.0)
    for is_centred in (isinstance(part, nn.LayerNorm), not isinstance(part, nn.LayerNorm)):
        yield NormForm(is_centred, weight, float(epsilon))
        if weight is not None:
            yield NormForm(is_centred, 1.0 + weight, float(epsilon))


FEED_FORWARDS = {
    "dense_4h_to_h": "dense_h_to_4h",
    "DenseReluDense": "",
    "ffn_output": "ffn",
    "ffn": "",
    "fc2": "fc1",
    "mlp": "",
    "block_sparse_moe": "",
    "feed_forward": "",
    "output.dense": "intermediate.dense",
}
"""What the library calls the part of a layer whose output is added to the stream, the most exact first.

Behind each what reads the stream for it, where that is another module: the first of two products.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """The places of a model: products behind heads by site; layers and feed-forward parts by stack and layer.

    `attentions` are the modules that attend, by site, `feed_forward_readers` what reads the stream for a
    feed-forward part, where that is known.
    """

    projections: Mapping[SiteKey, CallPlace]
    attentions: Mapping[SiteKey, CallPlace]
    blocks: Mapping[SiteKey, CallPlace]
    feed_forwards: Mapping[SiteKey, CallPlace]
    feed_forward_readers: Mapping[SiteKey, CallPlace]

    @property
    def predicting_stack(self) -> Stack:
        """The stack that the output is read off."""
        return "decoder" if any(stack == "decoder" for stack, _ in self.blocks) else "encoder"

    def layers(self, stack: Stack) -> tuple[CallPlace, ...]:
        """The layers of `encoder` or `decoder`, in order."""
        return tuple(place for key, place in sorted(self.blocks.items()) if key[0] == stack)


_KNOWN: "WeakKeyDictionary[nn.Module, Anatomy]" = WeakKeyDictionary()


def anatomy_of(network: HuggingFaceNetwork) -> Anatomy:
    """The places of a model, found once with a tiny pass; raises UserError, by name, where they cannot be."""
    found = _KNOWN.get(network.module)
    if found is None:
        if not network.attached.has_gates:
            raise not_known(network, "it computes attention in its own code")
        found = _find(network)
        _KNOWN[network.module] = found
    return found


def not_known(network: HuggingFaceNetwork, what: str) -> UserError:
    """The refusal of a model whose parts are not where they can be found."""
    return UserError(
        f"The parts of {type(network.module).__name__} cannot be told apart: {what}.",
        expected="layers that attend through the library's interface, with a linear layer after their heads",
        action="Look at its maps, gates or importance, or open another model for this.",
    )


def _find(network: HuggingFaceNetwork) -> Anatomy:
    model, modules = network.module, network.attached.modules
    attentions = {
        key: CallPlace(module=module, call=call)
        for module, keys in modules.items()
        for call, key in enumerate(keys)
    }
    projections = _find_projections(network)
    missing = next((f"{s.stack} {s.layer}" for s in network.sites if s.key not in projections), "")
    if missing:
        raise not_known(network, f"no linear layer reads the heads of {missing} unchanged")
    names = {module: name for name, module in model.named_modules()}
    own = {module: keys for module, keys in modules.items() if keys[0][0] != "cross"}
    blocks: dict[SiteKey, CallPlace] = {}
    feed_forwards: dict[SiteKey, CallPlace] = {}
    readers: dict[SiteKey, CallPlace] = {}
    outputs = {place.module for place in projections.values()}
    for module, keys in own.items():
        block = _block_of(model, names[module], own)
        if block is None:
            raise not_known(network, f"{names[module]} is not in a list of layers")
        part, reader = _feed_forward_of(block, outputs)
        for call, key in enumerate(keys):
            blocks[key] = CallPlace(module=block, call=call)
            if part is not None:
                feed_forwards[key] = CallPlace(module=part, call=call)
            if reader is not None:
                readers[key] = CallPlace(module=reader, call=call)
    return Anatomy(
        projections=projections,
        attentions=attentions,
        blocks=blocks,
        feed_forwards=feed_forwards,
        feed_forward_readers=readers,
    )


def _block_of(model: Any, name: str, attentions: Iterable[nn.Module]) -> nn.Module | None:
    """The largest part that stands in a list and holds one self-attention alone."""
    known, parts = set(attentions), name.split(".")
    found: nn.Module | None = None
    for length in range(len(parts) - 1, 0, -1):
        part: nn.Module = model.get_submodule(".".join(parts[:length]))
        if sum(module in known for module in part.modules()) > 1:
            break
        if isinstance(model.get_submodule(".".join(parts[: length - 1])), nn.ModuleList):
            found = part
    return found


def _feed_forward_of(block: nn.Module, outputs: set[nn.Module]) -> tuple[nn.Module | None, nn.Module | None]:
    """What gives the output of a layer's feed-forward part, and what reads the stream for it."""
    for name, reader in FEED_FORWARDS.items():
        found = _called(block, name, outputs)
        if len(found) == 1:
            readers = _called(block, reader, outputs) if reader else found
            return found[0], readers[0] if len(readers) == 1 else None
    return None, None


def _called(block: nn.Module, name: str, outputs: set[nn.Module]) -> list[nn.Module]:
    """The parts of a layer that go by a name, but for those that read heads."""
    return [
        part
        for path, part in block.named_modules()
        if f".{path}".endswith(f".{name}") and part not in outputs
    ]


def is_product(module: nn.Module) -> bool:
    """Whether a module is a matrix with or without a bias; the library has its own kind for GPT-2."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


class _Gave(QuietProbe):
    """Keeps what each site gave until a product reads it."""

    def __init__(self) -> None:
        self.waiting: dict[SiteKey, Tensor] = {}

    def wants(self, site: SiteKey) -> bool:
        return True

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """See `Probe`."""
        self.waiting[site] = out.transpose(1, 2).flatten(2).detach().clone()


def _find_projections(network: HuggingFaceNetwork) -> dict[SiteKey, CallPlace]:
    gave, found, n_calls = _Gave(), dict[SiteKey, CallPlace](), Counter[nn.Module]()

    def reads(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        given = arguments[0]
        for site, joined in list(gave.waiting.items()):
            if given.numel() == joined.numel() and torch.equal(given.reshape(joined.shape), joined):
                del gave.waiting[site]
                found[site] = CallPlace(module=module, call=n_calls[module])
                n_calls[module] += 1
                return

    products = [module for module in network.module.modules() if is_product(module)]
    handles = [module.register_forward_pre_hook(reads) for module in products]
    try:
        if network.info.reads == "text":
            network.run(network.encode("a b"), gave)
        else:
            with network.attached.probing(gave):
                run_example(network.module, example_of(network.module))
    finally:
        for handle in handles:
            handle.remove()
    return found
