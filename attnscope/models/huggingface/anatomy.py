"""Locates a library model's layers, the projections of its heads, and its feed-forward parts.

Nothing is looked up by the kind of model. The product behind the heads of a site is the one that reads, to
the last bit, what the site's attention gave; a layer is the largest part of a list that holds the attention
of one layer alone; its feed-forward part goes by one of the names that the library uses. One module may serve
all layers (ALBERT), so calls are counted (`models/passes.py`).

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

The rows of a library's matrices behind the queries, keys and values of each head, found by their numbers.

Families keep them in many layouts: in three matrices or in one, part below part or head by head, shared by
groups, with a norm behind them. None is believed: some texts with different first tokens go through the
model, and each number that a head gets at its first token must be, to the last bit, what one row of one
matrix gave, times a factor of `_factors`, on every text. Rotary turns are by no angle at the first token. A
norm behind a matrix (Qwen 3, Gemma 3) gives its weight to the rows; its scale is left out. The first token of
every picture is the same, so that other numbers enter the first layer of a vision model.

| symbol  | meaning                                            | shape                        |
|---------|----------------------------------------------------|------------------------------|
| q, k, v | rows of each head                                  | [n_heads, d_head, d_in]      |
| o       | columns of each head                               | [n_heads, d_model, d_value]  |
| given   | numbers at the first token of every text           | [n_texts, n_rows]            |

Every token of the vocabulary as a head of a library's model would read it, and as its output is told.

An embedding passes, as if it were all of the stream, through what stands before the head: the norm of the
embedding, the product that widens it (ALBERT, ELECTRA), the norm of the layer. Which they are is found by
their numbers on some texts, as in above: a step is passed when what it gave is what the next one
read. An output's own layer (BERT's) counts with its matrix, as if its activation let everything through.

| symbol   | meaning                                                | shape            |
|----------|--------------------------------------------------------|------------------|
| queries  | embeddings as the matrix of the queries reads them     | [vocab, d_model] |
| keys     | embeddings as the matrices of keys and values read them| [vocab, d_model] |
| outputs  | output weights times norms' weights and a head's matrix| [vocab, d_model] |
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnscope.errors import UserError
from attnscope.models.huggingface.network import HuggingFaceNetwork, takes_argument
from attnscope.models.huggingface.proof import example_of, run_example
from attnscope.models.passes import CallPlace, changed_reads, hooked
from attnscope.nn import Call, QuietProbe, exact
from attnscope.records.sites import SiteKey, Stack

_CLOSE = 1e-4


def is_norm(part: nn.Module) -> bool:
    return isinstance(part, nn.LayerNorm) or "Norm" in type(part).__name__


@dataclass(frozen=True, slots=True, eq=False)
class NormForm:
    """A norm apart from its scale: whether it subtracts the mean, and its weight, None if it has none."""

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
    """The form of a norm that computes `output` from `x`; None if unknown."""
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
    """The modules of a model: products behind heads by site; layers and feed-forward parts by stack and
    layer.

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
    """The modules of a model, found once with a tiny pass; raises UserError if they cannot be found."""
    found = _KNOWN.get(network.module)
    if found is None:
        if not network.attached.has_gates:
            raise not_known(network, "it computes attention in its own code")
        found = _find(network)
        _KNOWN[network.module] = found
    return found


def not_known(network: HuggingFaceNetwork, what: str) -> UserError:
    """The error for a model whose parts cannot be found."""
    return UserError(
        f"The parts of {type(network.module).__name__} cannot be told apart: {what}.",
        expected="layers that attend through the library's interface, with a linear layer after their heads",
        action="Look at its maps, or open another model for this.",
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
    """The largest module in a list that holds exactly one self-attention."""
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
    """Modules that write the output of a layer's feed-forward part and read the stream for it."""
    for name, reader in FEED_FORWARDS.items():
        found = _called(block, name, outputs)
        if len(found) == 1:
            readers = _called(block, reader, outputs) if reader else found
            return found[0], readers[0] if len(readers) == 1 else None
    return None, None


def _called(block: nn.Module, name: str, outputs: set[nn.Module]) -> list[nn.Module]:
    """The parts of a layer with that name, except those that read heads."""
    return [
        part
        for path, part in block.named_modules()
        if f".{path}".endswith(f".{name}") and part not in outputs
    ]


def is_product(module: nn.Module) -> bool:
    """Whether a module is a matrix product, with or without a bias; GPT-2 has its own kind."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


class _Gave(QuietProbe):
    """Keeps each site's output until a product reads it."""

    def __init__(self) -> None:
        self.waiting: dict[SiteKey, Tensor] = {}

    def wants(self, site: SiteKey) -> bool:
        return True

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
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
    with hooked(handles):
        if network.info.reads == "text":
            network.run(network.encode("a b"), gave)
        else:
            with network.attached.probing(gave):
                run_example(network.module, example_of(network.module))
    return found


_N_TEXTS, _N_TOKENS = 16, 11
"""More tokens than any model has heads: the axes of a tensor are identified by their sizes."""
_N_PICTURES = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadRows:
    """The weights of one site, without biases; those of grouped keys and values once for each head. float64.

    `query_input` and `key_input` are what the matrices of queries, and of keys and values, read.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    scale: float
    query_input: Tensor
    key_input: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class ModuleStep:
    """Input and output of one module at the first token, [n_texts, n]; `width` is the size of a norm's
    axis.
    """

    module: Any
    read: Tensor
    given: Tensor
    width: int


class _SeenCall(QuietProbe):
    """The queries, keys and values of one site at the first token, [n_texts, n_heads, d_head]."""

    def __init__(self, site: SiteKey) -> None:
        self.site, self.scale = site, 1.0
        self.found: dict[str, Tensor] = {}

    def wants(self, site: SiteKey) -> bool:
        return site == self.site

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        self.scale = call.score.scale
        self.found = {name: getattr(call, name)[:, :, 0].detach().clone() for name in ("q", "k", "v")}


@dataclass(slots=True, eq=False)
class _Row:
    """Source of the numbers of a head's part: rows of a product, and the factor for each."""

    module: Any
    read: Tensor
    indices: list[int]
    factors: Tensor = field(default_factory=lambda: torch.ones(1))

    def taken(self) -> Tensor:
        """The rows, float64 [n_rows, d_in]."""
        return exact(matrix_of(self.module)[self.indices]) * exact(self.factors)[:, None]


def head_rows(network: HuggingFaceNetwork, site: SiteKey) -> HeadRows:
    """The weights of a site's heads; raises UserError for numbers that no row of a matrix gives."""
    found, seen = _rows_of(network, site)
    n_heads = seen.found["q"].shape[1]

    def of_heads(name: str) -> Tensor:
        given = seen.found[name]
        taken = found[name].taken()
        rows = taken.reshape(*given.shape[1:], taken.shape[1])
        return rows.repeat_interleave(n_heads // given.shape[1], 0)

    output = exact(matrix_of(anatomy_of(network).projections[site].module))  # [d_model, H · D]
    return HeadRows(
        q=of_heads("q"),
        k=of_heads("k"),
        v=of_heads("v"),
        o=output.reshape(len(output), n_heads, -1).transpose(0, 1),
        scale=seen.scale,
        query_input=found["q"].read,
        key_input=found["k"].read,
    )


def head_products(network: HuggingFaceNetwork, site: SiteKey) -> dict[str, tuple[CallPlace, list[list[int]]]]:
    """The products that give q, k and v, and the columns of each head, or key-value head.

    What they give is without the factors, norms and turns that may follow. Raises as `head_rows` does.
    """
    found, seen = _rows_of(network, site)
    call = anatomy_of(network).attentions[site].call
    parted = {}
    for name, row in found.items():
        width = seen.found[name].shape[2]
        heads = [row.indices[start : start + width] for start in range(0, len(row.indices), width)]
        parted[name] = (CallPlace(module=row.module, call=call), heads)
    return parted


def _rows_of(network: HuggingFaceNetwork, site: SiteKey) -> tuple[dict[str, _Row], _SeenCall]:
    """Sources of a site's q, k and v, and their values at the first tokens."""
    anatomy = anatomy_of(network)
    place, seen = anatomy.attentions[site], _SeenCall(site)
    n_tokens = network.max_tokens if network.info.reads == "picture" else _N_TOKENS
    with torch.no_grad(), watched_steps(place.module, n_tokens) as steps:
        pass_first_tokens(network, seen)
    n_steps = len(steps) // len(
        [key for key, one in anatomy.attentions.items() if one.module is place.module]
    )
    steps = steps[place.call * n_steps : (place.call + 1) * n_steps]
    found = {name: _find_rows(network, site, name, given, steps) for name, given in seen.found.items()}
    return found, seen


def pass_first_tokens(network: HuggingFaceNetwork, probe: QuietProbe | None = None) -> None:
    """Run one pass over texts that differ in their first token; over pictures whose streams do."""
    if network.info.reads == "picture":
        return _pass_pictures(network, probe)
    model, ids = network.module, first_tokens(network, "encoder")
    arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if network.form == "encoder-decoder":
        arguments["decoder_input_ids"] = first_tokens(network, "decoder")
    if takes_argument(model, "use_cache"):
        arguments["use_cache"] = False
    with torch.no_grad(), network.attached.probing(probe or QuietProbe()):
        model(**arguments)


def _pass_pictures(network: HuggingFaceNetwork, probe: QuietProbe | None) -> None:
    model = network.module
    pixels = example_of(model)["pixel_values"][:1].expand(_N_PICTURES, -1, -1, -1)

    def other(stream: Tensor) -> Tensor:
        steps = torch.arange(stream.numel(), dtype=torch.float64)
        return torch.sin(steps * steps * 0.731).reshape(stream.shape).to(stream)

    first = anatomy_of(network).layers("encoder")[0]
    with torch.no_grad(), network.attached.probing(probe or QuietProbe()), changed_reads([(first, other)]):
        model(pixel_values=pixels)


def first_tokens(network: HuggingFaceNetwork, stack: Stack) -> Tensor:
    """The ids of these texts, [n_texts, n_tokens]; an encoder–decoder's second stack gets other ones."""
    n_pieces = min(network.module.get_input_embeddings().weight.shape[0], network.info.vocab_size or 2**31)
    n_texts, n_tokens = min(_N_TEXTS, n_pieces), min(_N_TOKENS, network.max_tokens)
    ids: Tensor = (torch.arange(n_texts * n_tokens, device=network.device) * 7 + 3) % n_pieces
    ids = ids.reshape(n_tokens, n_texts).T.contiguous()
    return ids.flip(0) if stack == "decoder" and network.form == "encoder-decoder" else ids


@contextmanager
def watched_steps(part: nn.Module, n_tokens: int = _N_TOKENS) -> Iterator[list[ModuleStep]]:
    """List that receives inputs and outputs of products and norms inside a part at the first token."""
    steps: list[ModuleStep] = []

    def after(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if arguments and isinstance(output, Tensor) and output.ndim > 2:
            axis = 2 if output.ndim == 4 and output.shape[1] != n_tokens else 1
            read, given = (one.detach().select(axis, 0).flatten(1) for one in (arguments[0], output))
            steps.append(ModuleStep(module, read.clone(), given.clone(), output.shape[-1]))

    watched = [one for one in part.modules() if is_product(one) or is_norm(one)]
    handles = [one.register_forward_hook(after) for one in watched]
    with hooked(handles):
        yield steps


def _find_rows(
    network: HuggingFaceNetwork, site: SiteKey, name: str, given: Tensor, steps: list[ModuleStep]
) -> _Row:
    """The rows behind numbers [n_texts, n_heads, d_head]."""
    wanted = given.flatten(1)
    products = [step for step in steps if is_product(step.module)]
    for factor in _factors(network, given.shape[-1]):
        for step in products:
            indices = _same_columns(wanted, step.given * factor)
            if indices is not None:
                factors = torch.full((len(indices),), factor, device=given.device)
                return _Row(step.module, step.read, indices, factors)
        for step in steps:
            through = None if is_product(step.module) else _same_columns(wanted, step.given * factor)
            form = None if through is None else _form_of(step)
            if through is None or form is None or form.is_centred:
                continue
            for product in products:
                indices = _same_columns(step.read[:, through], product.given)
                if indices is not None:
                    weight = step.given.new_ones(step.width) if form.weight is None else form.weight
                    factors = factor * weight.repeat(step.given.shape[1] // step.width)[through]
                    return _Row(product.module, product.read, indices, factors)
    what = f"no matrix gives the numbers of {name} of {site[0]} layer {site[1]}"
    raise not_known(network, what)


def _form_of(step: ModuleStep) -> NormForm | None:
    read, given = (one.reshape(len(one), -1, step.width) for one in (step.read, step.given))
    return norm_form(step.module, read, given)


def _factors(network: HuggingFaceNetwork, d_head: int) -> tuple[float, ...]:
    """Candidate factors of queries or keys: a scale of their own (OPT), or of long rotary turns."""
    turned = {
        float(module.attention_scaling)
        for module in network.module.modules()
        if isinstance(getattr(module, "attention_scaling", None), int | float)
    }
    return (1.0, d_head**-0.5, *sorted(turned - {1.0}))


def _same_columns(wanted: Tensor, given: Tensor) -> list[int] | None:
    """For each column of `wanted` the index of an equal one, bit for bit; None if one has none."""
    numbers = {column: i for i, column in reversed(list(enumerate(_columns(given))))}
    found = [numbers.get(column) for column in _columns(wanted)]
    return None if None in found else [number for number in found if number is not None]


def _columns(table: Tensor) -> list[bytes]:
    columns = (table.float() + 0.0).T.contiguous().cpu().numpy()  # + 0 makes −0 a 0
    return [column.tobytes() for column in columns]


def matrix_of(module: Any) -> Tensor:
    """The matrix of a product, [n_rows, d_in]; the library stores GPT-2's transposed."""
    weight: Tensor = module.weight.detach()
    return weight if isinstance(module, nn.Linear) else weight.T


_ACTIVATIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: x,
    functional.gelu,
    partial(functional.gelu, approximate="tanh"),
    torch.relu,
    torch.tanh,
    functional.silu,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenTables:
    """The three tables of one site, float32."""

    queries: Tensor
    keys: Tensor
    outputs: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """One pass: every step of the model, and for some layers their input and the step that followed."""

    steps: list[ModuleStep]
    entered: dict[SiteKey, tuple[int, Tensor]]


@torch.no_grad()
def token_tables(network: HuggingFaceNetwork, site: SiteKey, rows: HeadRows) -> TokenTables:
    """The tables for one site whose matrices are `rows`; raises UserError if widths differ."""
    anatomy = anatomy_of(network)
    reading = _read(network, anatomy)
    stack: Stack = "decoder" if site[0] == "cross" else site[0]
    start, _ = reading.entered[(stack, site[1])]
    own = _entered(network, anatomy, reading, stack)
    queries = _through(own, reading.steps[start:], rows.query_input)
    if site[0] == "cross":
        outside = [step for step in reading.steps if step.module not in _inside(anatomy)]
        keys = _through(_entered(network, anatomy, reading, "encoder"), outside, rows.key_input)
    else:
        keys = _through(own, reading.steps[start:], rows.key_input)
    outputs = _outputs(network, anatomy, reading.steps)
    found = (queries.shape[1], keys.shape[1], outputs.shape[1])
    if found != (rows.q.shape[2], rows.k.shape[2], rows.o.shape[1]):
        raise not_known(network, "its embeddings are of another width than its stream")
    return TokenTables(queries=queries, keys=keys, outputs=outputs)


def _read(network: HuggingFaceNetwork, anatomy: Anatomy) -> _Reading:
    entered: dict[SiteKey, tuple[int, Tensor]] = {}
    with watched_steps(network.module) as steps:

        def enter(key: SiteKey, x: Tensor) -> Tensor:
            entered[key] = (len(steps), x[:, 0].clone())
            return x

        changes = [(place, partial(enter, key)) for key, place in anatomy.blocks.items()]
        with changed_reads(changes):
            pass_first_tokens(network)
    return _Reading(steps, entered)


def _inside(anatomy: Anatomy) -> set[nn.Module]:
    return {part for place in anatomy.blocks.values() for part in place.module.modules()}


def _entered(network: HuggingFaceNetwork, anatomy: Anatomy, reading: _Reading, stack: Stack) -> Tensor:
    """Every embedding as it enters the first layer when there are no positions."""
    table = _embedding(network, stack)
    ids = torch.arange(table.weight.shape[0], device=network.device)
    every: Tensor = table(ids[None])[0].float()
    _, first = reading.entered[(stack, min(layer for name, layer in anatomy.blocks if name == stack))]
    passed = list(_passed(first, [step for step in reading.steps if step.module not in _inside(anatomy)]))
    if passed:
        for step in reversed(passed):
            if step.read.shape[1] != every.shape[1]:
                return every
            every = step.module(every)
        return every
    own = every[first_tokens(network, stack)[:, 0]]
    if own.shape == first.shape:
        factor = float((own * first).sum() / own.square().sum().clamp(min=1e-12))
        if torch.allclose(own * factor, first.float(), rtol=1e-4, atol=1e-6):
            return every * factor
    return every


def _passed(wanted: Tensor, steps: list[ModuleStep]) -> Iterator[ModuleStep]:
    """The norms and products that led to some numbers, the last one first."""
    found: ModuleStep | None = None
    for step in reversed(steps):
        if step.given.shape == wanted.shape and torch.equal(step.given, wanted):
            found, wanted = step, step.read
            yield found


def _embedding(network: HuggingFaceNetwork, stack: Stack) -> Any:
    model = network.module
    if network.form != "encoder-decoder":
        return model.get_input_embeddings()
    part = model.get_encoder() if stack == "encoder" else model.get_decoder()
    return part.get_input_embeddings()


def _through(table: Tensor, steps: list[ModuleStep], wanted: Tensor) -> Tensor:
    """The table through the norm before a matrix; unchanged if there is none."""
    for step in steps:
        if is_norm(step.module) and step.given.shape == wanted.shape and torch.equal(step.given, wanted):
            return step.module(table) if table.shape[1] == wanted.shape[1] else table
    return table


def _outputs(network: HuggingFaceNetwork, anatomy: Anatomy, steps: list[ModuleStep]) -> Tensor:
    """Output weights with the steps before them: norms' weights, and products of the head's own layer."""
    model, inside = network.module, _inside(anatomy)
    head = model.get_output_embeddings()
    if head is None or not is_product(head):
        raise not_known(network, "its output is not a product of its stream")
    rows: Tensor = head.weight.detach().float()
    wanted = next(step.read for step in reversed(steps) if step.module is head)
    for step in reversed(steps):
        if step.module is head or step.module in inside or step.given.shape != wanted.shape:
            continue
        if is_norm(step.module) and _is_multiple(wanted, step.given):
            form = norm_form(step.module, step.read, step.given)
            if form is None:
                raise not_known(network, "its last norm has a form of its own")
            rows = rows if form.weight is None else rows * form.weight
            rows = rows - rows.mean(dim=-1, keepdim=True) if form.is_centred else rows
            wanted = step.read
        elif is_product(step.module) and _is_activated(wanted, step.given):
            rows, wanted = rows @ matrix_of(step.module).float(), step.read
    return rows


def _is_activated(x: Tensor, of: Tensor) -> bool:
    """Whether `x` is `of`, unchanged or through an activation that the library uses in a head."""
    return any(torch.allclose(x, activated(of), rtol=1e-4, atol=1e-6) for activated in _ACTIVATIONS)


def _is_multiple(x: Tensor, of: Tensor) -> bool:
    factor = float((x * of).sum() / of.square().sum().clamp(min=1e-12))
    return factor > 0 and torch.allclose(x, of * factor, rtol=1e-4, atol=1e-6)
