"""A recipe's additions to the plain step of training, in one place.

gates       of heads, learned along under an L0 penalty (Voita et al. 2019, section 6)
adapters    in the place of whole matrices (`adapters.py`)
inspector   looks at single steps
recomputing in the place of kept activations (`nn/transformer.py`)

| symbol    | meaning                                                  | shape              |
|-----------|----------------------------------------------------------|--------------------|
| log_alpha | what is learned for each site                            | [n_heads]          |
| z         | gates drawn for each text of a batch (`nn/spans.py`)     | [B, n_heads]       |

What is minimised with gates is E[L] + λ · Σ_h P(z_h ≠ 0), L in nats per token. Gates have an Adam of their
own with a constant rate. What a checkpoint keeps, and what held-out losses are measured with, are the gates
without noise, rounded: a head is there or it is not.

inspections.jsonl of a run folder: every so many steps, how large updates and gradients were (C39).

The histogram of Adam's updates is what Liu et al. 2020 (figure 2) explain warm-up with, the gradients'
norms by layer what Xiong et al. 2020 (figure 3) do. How far the weights have come from the first ones, and
how large the inputs of the norms are, is what Wang et al. 2022 (DeepNet, figure 3) ask of deep models: a norm
divides its gradient by the size of its input, ‖∂LN(x)/∂x‖ = O(√d / ‖x‖). Looking changes nothing; it costs a
copy of the first weights, and one more for the step that is looked at.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import parametrize

from attnscope.codec import Caps, Codec
from attnscope.errors import LoadError, RecipeError
from attnscope.models.checkpoint import LowRankChanges, low_rank_sum, read_model_folder
from attnscope.models.passes import hooked
from attnscope.nn import (
    START_LOG_ALPHA,
    CrossAttention,
    Norm,
    SelfAttention,
    Transformer,
    exact,
    open_probability,
    sample_gates,
    settled_gates,
    sites_with_spans,
)
from attnscope.nn.own_module import OwnModule
from attnscope.outside import open_outside, open_to_append
from attnscope.records.models import Form
from attnscope.records.runs import UPDATE_BINS, Inspection, InspectionHistory, Numbers
from attnscope.records.sites import HeadRef, Site, SiteKey
from attnscope.training.distributed import ALONE, Ranks
from attnscope.training.objectives import Batch
from attnscope.training.parts import GatesPart, StartPart
from attnscope.training.recipe import Recipe, gated_stacks
from attnscope.training.run import RunFolder

INSPECTIONS = "inspections.jsonl"
_MAX_BYTES = 2**30
_CODEC = Codec(caps=Caps(whole=2**53, number=math.inf))
MOST_STEPS = 400
_PIECE_BYTES = 128_000
"""About 200 steps: a piece of work after which the window's other requests have their turn."""
_BEFORE_BYTES = 200


class Inspector:
    """Inspects every n-th step of a run and records it; a full disk does not stop it.

    The weights that the module has when this is made are the first ones, but for those that `first` names,
    which a resumed run began with; with `first` None some of them are not known.
    """

    def __init__(
        self,
        module: nn.Module,
        folder: Path,
        every: int,
        first: Mapping[str, Tensor] | None = MappingProxyType({}),
    ) -> None:
        self._parameters = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        self._path, self._every = folder / INSPECTIONS, every
        self._first: list[Tensor] = []
        if every and first is not None:
            found = [(p, first.get(name)) for name, p in self._parameters]
            self._first = [(p.detach() if old is None else old.to(p)).clone() for p, old in found]
        named = module.named_modules()
        self._norms = [(name, m) for name, m in named if isinstance(m, Norm) and not m.scheme.is_nothing]
        self._inputs: dict[str, list[tuple[Tensor, int]]] = {}

    @contextmanager
    def reading(self, step: int) -> Iterator[None]:
        """Around the forward passes of a step: measures the inputs of norms if the step is inspected."""
        self._inputs = {}
        if not self._every or step % self._every:
            yield
            return
        handles = []
        for name, norm in self._norms:
            parts = self._inputs.setdefault(norm_name(name), [])
            handles.append(norm.register_forward_pre_hook(_Measure(parts)))
        with hooked(handles):
            yield

    @contextmanager
    def looking_at(self, step: int, learning_rate: float, gradient_norm: float) -> Iterator[None]:
        """Around the optimiser's step; `gradient_norm` is that of all weights before clipping."""
        if not self._every or step % self._every:
            yield
            return
        before = [p.detach().clone() for _, p in self._parameters]
        layers = [layer_of(name) for name, _ in self._parameters]
        gradients = _norms(layers, [p.grad for _, p in self._parameters])
        after_clipping = math.sqrt(sum(value**2 for value in gradients.values()))
        scale = gradient_norm / after_clipping if after_clipping else 0.0
        yield
        with torch.no_grad():
            now = [p.detach() for _, p in self._parameters]
            changes = [new - old for new, old in zip(now, before, strict=True)]
            moved = [new - old for new, old in zip(now, self._first, strict=True)] if self._first else []
        counts, n_still = count_updates(changes)
        updates = _norms(layers, changes)
        inputs = {name: _root_mean_square(parts) for name, parts in self._inputs.items() if parts}
        self._add(
            Inspection(
                step=step,
                learning_rate=learning_rate,
                layers=tuple(gradients),
                gradient_norms=tuple(scale * value for value in gradients.values()),
                update_norms=tuple(updates.values()),
                update_counts=counts,
                n_still=n_still,
                moved_norms=tuple(_norms(layers, moved).values()) if moved else (),
                norms=tuple(inputs),
                norm_inputs=tuple(inputs.values()),
            )
        )

    def _add(self, inspection: Inspection) -> None:
        line = json.dumps(_CODEC.write(inspection), allow_nan=False)
        try:
            with open_to_append(self._path) as stream:
                stream.write(f"{line}\n".encode())
        except OSError:
            pass


def _open_inspections(folder: Path) -> BinaryIO:
    """The inspections of a run folder, open for reading; raises LoadError."""
    return open_outside(folder / INSPECTIONS, expected="the inspections of a run", max_bytes=_MAX_BYTES)


def read_inspections(folder: Path) -> tuple[Inspection, ...]:
    """Inspections in a run folder, by step; if a run was resumed, the later one counts.

    Lines that are cut short or of another kind are skipped, as is a file that is not there.
    """
    try:
        with _open_inspections(folder) as stream:
            lines = stream.read().splitlines()
    except (OSError, LoadError):
        return ()
    found: list[Inspection] = []
    _take_lines(found, lines)
    return tuple(found)


def first_weights(folder: RunFolder) -> dict[str, Tensor] | None:
    """The initial weights of a run, by name; None if their checkpoint is gone or damaged."""
    try:
        return read_model_folder(folder.checkpoint(0)).module.state_dict()
    except LoadError:
        return None


def layer_of(name: str) -> str:
    """The layer of a parameter, as displayed: `encoder.0.attention…` is `encoder L0`."""
    first, _, rest = name.partition(".")
    second = rest.partition(".")[0]
    return f"{first} L{second}" if second.isdigit() else first.replace("_", " ")


def norm_name(name: str) -> str:
    """A norm's displayed name: `encoder.0.attention_norm` is `encoder L0 attention`."""
    *_, last = name.split(".")
    part = last.removesuffix("_norm").replace("_end", ", after").replace("_", "-")
    return layer_of(name) if "." not in name else f"{layer_of(name)} {part}"


class _Measure:
    """Before a norm: add the sum of squares of its input [.., d], and the count of numbers, to `parts`."""

    def __init__(self, parts: list[tuple[Tensor, int]]) -> None:
        self._parts = parts

    def __call__(self, _norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].detach()
        self._parts.append((exact(x).square().sum(), x.numel()))


def _root_mean_square(parts: Sequence[tuple[Tensor, int]]) -> float:
    total = math.fsum(float(squares) for squares, _ in parts)
    return math.sqrt(total / sum(n for _, n in parts))


def count_updates(changes: list[Tensor]) -> tuple[tuple[int, ...], int]:
    """Number of weights whose change falls into each bin of `UPDATE_BINS`, and of those unchanged."""
    n_bins, first, step = len(UPDATE_BINS) - 1, UPDATE_BINS[0], UPDATE_BINS[1] - UPDATE_BINS[0]
    counts, n_still = torch.zeros(n_bins, dtype=torch.int64), 0
    for change in changes:
        sizes = change.detach().cpu().abs().flatten()
        moved = sizes[sizes > 0]
        n_still += len(sizes) - len(moved)
        bins = ((moved.double().log10() - first) / step).floor().clamp(0, n_bins - 1).long()
        counts += torch.bincount(bins, minlength=n_bins)
    return tuple(counts.tolist()), n_still


def _take_lines(found: list[Inspection], lines: list[bytes]) -> None:
    """Append the lines' inspections; those of a resumed run replace earlier ones."""
    for line in lines:
        inspection = _from_line(line)
        if inspection is not None:
            while found and found[-1].step >= inspection.step:
                found.pop()
            found.append(inspection)


def _norms(layers: list[str], tensors: list[Tensor | None] | list[Tensor]) -> dict[str, float]:
    """The norm of each layer's tensors, in the order of the layers."""
    squares: dict[str, float] = dict.fromkeys(layers, 0.0)
    for layer, tensor in zip(layers, tensors, strict=True):
        if tensor is not None:
            squares[layer] += float(exact(tensor.detach()).square().sum())
    return {layer: math.sqrt(value) for layer, value in squares.items()}


def _from_line(line: bytes) -> Inspection | None:
    try:
        inspection = _CODEC.read(Inspection, json.loads(line))
    except (ValueError, RecursionError):
        return None
    n_layers = len(inspection.layers)
    is_whole = len(inspection.gradient_norms) == len(inspection.update_norms) == n_layers
    is_whole &= len(inspection.update_counts) == len(UPDATE_BINS) - 1
    is_whole &= len(inspection.moved_norms) in (0, n_layers)
    is_whole &= len(inspection.norm_inputs) == len(inspection.norms)
    return inspection if is_whole else None


class InspectionsReader:
    """Caches the inspections of one run folder; another folder, or a replaced file, begins anew."""

    def __init__(self) -> None:
        self._folder, self._n_bytes, self._before = Path(), 0, b""
        self._found: list[Inspection] = []

    @property
    def version(self) -> int:
        """Changes whenever something was read; 0 while there is nothing."""
        return self._n_bytes

    def read(self, folder: Path) -> Iterator[None]:
        """Read the new lines in `folder`, a piece at a time; a missing file counts as empty."""
        if folder != self._folder:
            self._begin(folder)
        try:
            with _open_inspections(folder) as stream:
                stream.seek(self._n_bytes - len(self._before))
                if stream.read(len(self._before)) != self._before:
                    self._begin(folder)
                    stream.seek(0)
                while lines := stream.readlines(_PIECE_BYTES):
                    if not lines[-1].endswith(b"\n"):
                        lines.pop()
                    if not lines:
                        return
                    _take_lines(self._found, lines)
                    self._n_bytes += sum(map(len, lines))
                    self._before = (self._before + b"".join(lines))[-_BEFORE_BYTES:]
                    yield
        except (OSError, LoadError):
            self._begin(folder)

    def history(self) -> InspectionHistory | None:
        """The inspections read; None if there are none."""
        return history_of(self._found)

    def _begin(self, folder: Path) -> None:
        self._folder, self._n_bytes, self._before = folder, 0, b""
        self._found = []


def history_of(found: Sequence[Inspection]) -> InspectionHistory | None:
    """At most `MOST_STEPS` of the inspections, evenly chosen, first and last among them; None for none."""
    if not found:
        return None
    n = len(found)
    places = np.linspace(0, n - 1, min(n, MOST_STEPS)).round().astype(int).tolist()
    shown = [found[i] for i in places]
    layers = tuple(dict.fromkeys(layer for look in shown for layer in look.layers))
    norms = tuple(dict.fromkeys(norm for look in shown for norm in look.norms))
    return InspectionHistory(
        steps=_row([look.step for look in shown]),
        learning_rates=_row([look.learning_rate for look in shown]),
        n_still=_row([look.n_still for look in shown]),
        layers=layers,
        gradient_norms=_by_layer(layers, [dict(zip(s.layers, s.gradient_norms, strict=True)) for s in shown]),
        update_norms=_by_layer(layers, [dict(zip(s.layers, s.update_norms, strict=True)) for s in shown]),
        update_counts=np.array([look.update_counts for look in shown], dtype=np.float64).T,
        moved_norms=_by_layer(layers, [dict(zip(s.layers, s.moved_norms, strict=False)) for s in shown]),
        norms=norms,
        norm_inputs=_by_layer(norms, [dict(zip(s.norms, s.norm_inputs, strict=True)) for s in shown]),
        n_steps_seen=n,
    )


def _row(values: Sequence[float]) -> Numbers:
    return np.array(values, dtype=np.float64)


def _by_layer(layers: tuple[str, ...], looks: list[dict[str, float]]) -> Numbers:
    rows = [[look.get(layer, np.nan) for look in looks] for layer in layers]
    return np.array(rows, dtype=np.float64).reshape(len(layers), len(looks))


_OF_GATES = "gates/"
_LEAST = 1e-6


class HeadGates:
    """The gates of a run: drawn for each batch, learned with each step."""

    def __init__(self, sites: Iterable[Site], part: GatesPart, device: torch.device) -> None:
        self.penalty = part.l0_penalty
        self._log_alpha = {
            site.key: torch.full((site.n_heads,), START_LOG_ALPHA, device=device, requires_grad=True)
            for site in sites
        }
        self._adam = torch.optim.Adam(self._log_alpha.values(), lr=part.learning_rate)

    @property
    def n_heads(self) -> int:
        """Number of heads with gates."""
        return sum(len(values) for values in self._log_alpha.values())

    def onto(self, batch: Batch, rng: np.random.Generator) -> Batch:
        n_texts, sizes = len(batch.ids), [len(values) for values in self._log_alpha.values()]
        noise = np.concatenate([rng.random(n_texts * n, dtype=np.float32) for n in sizes])
        device = next(iter(self._log_alpha.values())).device
        u = torch.from_numpy(noise).clamp_(_LEAST, 1 - _LEAST).to(device)  # one copy for all sites
        drawn = {
            key: sample_gates(log_alpha, part.view(n_texts, -1))
            for (key, log_alpha), part in zip(
                self._log_alpha.items(), torch.split(u, [n_texts * n for n in sizes]), strict=True
            )
        }
        return replace(batch, gates=drawn)

    def zero_gradients(self) -> None:
        """Clear the gradients of the previous step."""
        self._adam.zero_grad(set_to_none=True)

    def learn(self) -> None:
        """Take one step, with the penalty's gradient added to that of the batches."""
        torch.autograd.backward(self.penalty * self._expected())
        self._adam.step()

    def expected_open(self) -> float:
        """Σ P(z ≠ 0): the expected number of open heads."""
        with torch.no_grad():
            return float(self._expected())

    def settled_onto(self, batch: Batch) -> Batch:
        """The batch with the gates stored in a checkpoint, each 0 or 1."""
        return replace(batch, gates=self._settled())

    def closed(self) -> tuple[HeadRef, ...]:
        """The heads whose gates are rounded to 0."""
        return tuple(
            HeadRef(stack=stack, layer=layer, head=head)
            for (stack, layer), values in self._settled().items()
            for head, value in enumerate(values.tolist())
            if value == 0.0
        )

    def tensors(self) -> dict[str, Tensor]:
        """Tensors for a resume, named `gates/stack.layer/what`."""
        found = {}
        for (stack, layer), log_alpha in self._log_alpha.items():
            values = {"log_alpha": log_alpha, **self._adam.state.get(log_alpha, {})}
            for what, value in values.items():
                found[f"{_OF_GATES}{stack}.{layer}/{what}"] = torch.as_tensor(value).detach().cpu().clone()
        return found

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the output of `tensors`; raises LoadError if it is of other heads."""
        for (stack, layer), log_alpha in self._log_alpha.items():
            prefix = f"{_OF_GATES}{stack}.{layer}/"
            own = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            if "log_alpha" not in own or own["log_alpha"].shape != log_alpha.shape:
                raise LoadError(
                    f"The saved state has no gates for the heads of {stack} L{layer}.",
                    kind="state",
                    expected=f"{len(log_alpha)} of them",
                    action="Start a new run in another folder.",
                )
            log_alpha.copy_(own.pop("log_alpha"))
            self._adam.state[log_alpha].update(
                {what: t.clone() if what == "step" else t.to(log_alpha.device) for what, t in own.items()}
            )

    def _expected(self) -> Tensor:
        return torch.stack([open_probability(values).sum() for values in self._log_alpha.values()]).sum()

    def _settled(self) -> dict[SiteKey, Tensor]:
        with torch.no_grad():
            return {key: settled_gates(values).round() for key, values in self._log_alpha.items()}


class NoGates:
    """The gates of a run that learns none: every head stays open."""

    def onto(self, batch: Batch, _rng: np.random.Generator) -> Batch:
        return batch

    def zero_gradients(self) -> None: ...

    def learn(self) -> None: ...

    def expected_open(self) -> None:
        """None, for there are no gates."""

    def settled_onto(self, batch: Batch) -> Batch:
        return batch

    def closed(self) -> tuple[HeadRef, ...]:
        return ()

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None: ...


def build_gates(
    sites: Iterable[Site], part: GatesPart, form: Form, device: torch.device
) -> HeadGates | NoGates:
    """The gates of a recipe."""
    stacks = gated_stacks(part, form)
    gated = [site for site in sites if site.stack in stacks]
    return HeadGates(gated, part, device) if gated else NoGates()


# Low-rank adapters: of a trained model only small changes of the attention's matrices are learned.

_PREFIX = "adapters/"
_ADAPTED = ("qkv", "query", "kv", "output")
_PRETRAINED = ("tokens", "head", "encoder", "decoder")
"""Modules that stay as they were, but for what an objective adds to them; all other modules learn along."""
_ADDED = ("head.labels.", "encoder_embedding.segments.")


class LowRank(nn.Module):
    """Computes W' from W."""

    def __init__(self, weight: Tensor, rank: int, alpha: float, generator: Generator) -> None:
        super().__init__()
        n_out, n_in = weight.shape
        a = torch.randn(rank, n_in, generator=generator) * rank**-0.5
        self.a = nn.Parameter(a.to(weight.device))
        self.b = nn.Parameter(weight.new_zeros(n_out, rank))
        self.scale = alpha / rank

    def forward(self, weight: Tensor) -> Tensor:
        """W + (α / r) · B A."""
        return weight + self.scale * (self.b @ self.a)

    def merged(self, weight: Tensor) -> Tensor:
        """The same for saving: with exactly the bits found on opening."""
        return low_rank_sum(weight.detach(), self.a.detach(), self.b.detach(), self.scale)


def adapt(module: nn.Module, part: StartPart, seed: int) -> None:
    """Give every attention of the module adapters, and freeze everything else of the trained model."""
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.startswith(_PRETRAINED) or name.startswith(_ADDED))
    generator = torch.Generator(device="cpu").manual_seed(seed)
    for linear in _adapted(module):
        change = LowRank(linear.weight, part.lora_rank, part.lora_alpha, generator)
        parametrize.register_parametrization(linear, "weight", change)
    module.register_state_dict_post_hook(_merge)  # type: ignore[no-untyped-call]


def keep_all_but_prompt(module: nn.Module) -> None:
    """Freeze everything but the memory tokens in front of a text (Lester et al. 2021)."""
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name == "memory.weight")


def adapter_tensors(module: nn.Module) -> dict[str, Tensor]:
    """W, A and B of every adapted matrix on the CPU, for a resume: a merged W' cannot be separated."""
    return {
        _PREFIX + name: parameter.detach().cpu().clone()
        for name, parameter in module.named_parameters()
        if ".parametrizations." in name
    }


@torch.no_grad()
def restore_adapters(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore the output of `adapter_tensors`; raises LoadError if it is of another model."""
    for name, parameter in module.named_parameters():
        if ".parametrizations." not in name:
            continue
        found = tensors.get(_PREFIX + name)
        if found is None or found.shape != parameter.shape:
            raise LoadError(
                f"The saved state has no adapter {name} of the size {list(parameter.shape)}.",
                kind="state",
                expected="the adapters that the run's recipe asks for",
                action="Start a new run in another folder.",
            )
        parameter.copy_(found)


def low_rank_changes(tensors: Mapping[str, Tensor], part: StartPart) -> LowRankChanges:
    """The low-rank changes from `adapter_tensors`, as stored in a model folder that keeps a difference."""
    end = ".parametrizations.weight.0.a"
    found = {
        f"{name.removeprefix(_PREFIX).removesuffix(end)}.weight": (a, tensors[name[:-1] + "b"])
        for name, a in tensors.items()
        if is_of_adapters(name) and name.endswith(end)
    }
    scale = part.lora_alpha / part.lora_rank if part.lora_rank else 1.0
    return LowRankChanges(scale=scale, factors=found)


def is_of_adapters(name: str) -> bool:
    """Whether a tensor of a saved state is one of `adapter_tensors`."""
    return name.startswith(_PREFIX)


def _adapted(module: nn.Module) -> Iterator[nn.Linear]:
    for inner in module.modules():
        if isinstance(inner, SelfAttention | CrossAttention):
            for name in _ADAPTED:
                linear = getattr(inner, name, None)
                if isinstance(linear, nn.Linear):
                    yield linear


def _merge(module: nn.Module, state: dict[str, Any], prefix: str, _local: object) -> None:
    """Convert a state dictionary to that of a model without adapters."""
    names = [name for name in state if name.startswith(prefix) and ".parametrizations." in name]
    for name in names:
        del state[name]
    for name, inner in module.named_modules():
        if isinstance(inner, parametrize.ParametrizationList):
            for change in inner:
                if isinstance(change, LowRank):
                    name = name.replace("parametrizations.", "")
                    state[prefix + name] = change.merged(inner.original)


class Techniques:
    """The techniques of one run; made before its optimiser, since they determine which parameters learn."""

    def __init__(
        self,
        recipe: Recipe,
        module: OwnModule,
        folder: RunFolder,
        device: torch.device,
        ranks: Ranks = ALONE,
        *,
        is_resumed: bool = False,
    ) -> None:
        self._module, self._has_adapters = module, recipe.start.lora_rank > 0
        if isinstance(module, Transformer):
            module.is_recomputing = recipe.training.checkpointing
        self.gates = build_gates(module.sites(), recipe.gates, module.config.form, device)
        if ranks.n > 1 and isinstance(self.gates, HeadGates):
            raise RecipeError(
                f"gates.l0_penalty is {recipe.gates.l0_penalty:g} in a run of {ranks.n} processes.",
                expected="0, or a single process",
                action="Gates of heads are learned by one process: start it without torchrun.",
            )
        if self._has_adapters:
            adapt(module, recipe.start, recipe.training.seed)
        self._has_prompt = recipe.start.prompt_tokens > 0
        if self._has_prompt:
            keep_all_but_prompt(module)
        self._spanned = sites_with_spans(module)
        is_looking = ranks.is_writer and not (recipe.training.sharded and ranks.n > 1)
        every = recipe.training.inspect_every if is_looking else 0
        first = first_weights(folder) if every and is_resumed else {}
        self._inspector = Inspector(module, folder.folder, every, first)

    @property
    def note(self) -> str:
        """Note for the user on the parameters that learn; empty if all do."""
        if not (self._has_adapters or self._has_prompt):
            return ""
        learning = sum(p.numel() for p in self._module.parameters() if p.requires_grad)
        what = "the prompt" if self._has_prompt else "adapters"
        return f"{learning:,} parameters of {what} are trained; all others stay as they are."

    @property
    def open_heads(self) -> float | None:
        """The expected number of open heads; None if no gates are learned."""
        return self.gates.expected_open()

    @property
    def spans(self) -> tuple[tuple[str, float], ...] | None:
        """The span of each head that learns one, by its name; None if none does."""
        if not self._spanned:
            return None
        found = (
            (name, head, z)
            for name, site in self._spanned.items()
            for head, z in enumerate(site.spans().detach().tolist())
        )
        return tuple((f"{name}H{head}", z) for name, head, z in found)

    @property
    def closed_heads(self) -> tuple[HeadRef, ...]:
        """Heads recorded as off in a checkpoint."""
        return self.gates.closed()

    def for_training(self, batches: Sequence[Batch], rng: np.random.Generator) -> list[Batch]:
        """The batches of a step, with gates drawn for each text; old gradients are cleared."""
        self.gates.zero_gradients()
        return [self.gates.onto(batch, rng) for batch in batches]

    def for_evaluation(self, batch: Batch) -> Batch:
        """A held-out batch with the gates that a checkpoint would store."""
        return self.gates.settled_onto(batch)

    def reading(self, step: int) -> AbstractContextManager[None]:
        """Around the forward passes of a step."""
        return self._inspector.reading(step)

    @contextmanager
    def stepping(self, step: int, learning_rate: float, gradient_norm: float) -> Iterator[None]:
        """Around the optimiser's step."""
        with self._inspector.looking_at(step, learning_rate, gradient_norm):
            yield
        self.gates.learn()
        for site in self._spanned.values():
            site.keep_spans()

    def tensors(self) -> dict[str, Tensor]:
        """Tensors for a resume besides weights and optimiser."""
        return self.gates.tensors() | (adapter_tensors(self._module) if self._has_adapters else {})

    def restore(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Restore the output of `tensors`; returns the rest, which is the optimiser's."""
        self.gates.restore(tensors)
        if self._has_adapters:
            restore_adapters(self._module, tensors)
        return {n: t for n, t in tensors.items() if not n.startswith(_OF_GATES) and not is_of_adapters(n)}
