"""What a recipe adds to the plain step of training, in one place for the loop, the beginning and saving.

gates       of heads, learned along (`head_gates.py`)
adapters    in the place of whole matrices (`adapters.py`)
inspector   looks at single steps (`inspections.py`)
recomputing in the place of kept activations (`nn/transformer.py`)
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import parametrize

from attnscope.errors import LoadError, RecipeError
from attnscope.nn.layers import CrossAttention, SelfAttention
from attnscope.nn.own_module import OwnModule
from attnscope.nn.scoring import Scoring, sites_with_spans
from attnscope.nn.transformer import Transformer
from attnscope.records.sites import HeadRef
from attnscope.training.distributed import ALONE, Ranks
from attnscope.training.head_gates import HeadGates, build_gates, is_of_gates
from attnscope.training.inspections import Inspector, first_weights
from attnscope.training.objectives import Batch
from attnscope.training.parts import StartPart
from attnscope.training.recipe import Recipe
from attnscope.training.run import RunFolder

# Low-rank adapters: of a trained model only small changes of the attention's matrices are learned.

_PREFIX = "adapters/"
_ADAPTED = ("qkv", "query", "kv", "output")
_PRETRAINED = ("tokens", "head", "encoder", "decoder")
"""Modules that stay as they were, but for what an objective adds to them; all other modules learn along."""
_ADDED = ("head.labels.", "encoder_embedding.segments.")


class LowRank(nn.Module):
    """What makes W' of W."""

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


def adapt(module: nn.Module, part: StartPart, seed: int) -> None:
    """Give every attention of the module adapters and let nothing else of the trained model learn."""
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.startswith(_PRETRAINED) or name.startswith(_ADDED))
    generator = torch.Generator(device="cpu").manual_seed(seed)
    for linear in _adapted(module):
        change = LowRank(linear.weight, part.lora_rank, part.lora_alpha, generator)
        parametrize.register_parametrization(linear, "weight", change)
    module.register_state_dict_post_hook(_merge)  # type: ignore[no-untyped-call]


def keep_all_but_prompt(module: nn.Module) -> None:
    """Let nothing learn but the memory tokens in front of a text (Lester et al. 2021)."""
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name == "memory.weight")


def adapter_tensors(module: nn.Module) -> dict[str, Tensor]:
    """W, A and B of every adapted matrix on the CPU, for a resume: a merged W' cannot be taken apart."""
    return {
        _PREFIX + name: parameter.detach().cpu().clone()
        for name, parameter in module.named_parameters()
        if ".parametrizations." in name
    }


@torch.no_grad()
def restore_adapters(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `adapter_tensors` gave; raises LoadError when it is of another model."""
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


def _numbered(site: Scoring) -> Iterator[tuple[int, float]]:
    return enumerate(site.spans().detach().tolist())


def _merge(module: nn.Module, state: dict[str, Any], prefix: str, _local: object) -> None:
    """Make a state dictionary that of a model without adapters."""
    names = [name for name in state if name.startswith(prefix) and ".parametrizations." in name]
    for name in names:
        del state[name]
    for name, inner in module.named_modules():
        if isinstance(inner, nn.Linear) and parametrize.is_parametrized(inner):
            state[f"{prefix}{name}.weight"] = inner.weight.detach()


class Techniques:
    """The techniques of one run; made before its optimiser, since they decide what learns."""

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
        self.gates: HeadGates | None = build_gates(module.sites(), recipe.gates, module.config.form, device)
        if ranks.n > 1 and self.gates is not None:
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
        """What a person should know about what learns, empty where everything does."""
        if not (self._has_adapters or self._has_prompt):
            return ""
        learning = sum(p.numel() for p in self._module.parameters() if p.requires_grad)
        what = "the prompt" if self._has_prompt else "adapters"
        return f"{learning:,} parameters of {what} are trained; all others stay as they are."

    @property
    def open_heads(self) -> float | None:
        """The expected number of open heads; None where no gates are learned."""
        return None if self.gates is None else self.gates.expected_open()

    @property
    def spans(self) -> tuple[tuple[str, float], ...] | None:
        """The span of each head that learns one, by its name; None where none does."""
        if not self._spanned:
            return None
        found = ((name, head, z) for name, site in self._spanned.items() for head, z in _numbered(site))
        return tuple((f"{name}H{head}", z) for name, head, z in found)

    @property
    def closed_heads(self) -> tuple[HeadRef, ...]:
        """Heads that a checkpoint says are off."""
        return () if self.gates is None else self.gates.closed()

    def for_training(self, batches: Sequence[Batch], rng: np.random.Generator) -> list[Batch]:
        """The batches of a step, with gates drawn for each text; what the step before left is forgotten."""
        if self.gates is None:
            return list(batches)
        self.gates.zero_gradients()
        return [self.gates.onto(batch, rng) for batch in batches]

    def for_evaluation(self, batch: Batch) -> Batch:
        """A held-out batch with the gates a checkpoint would keep."""
        return batch if self.gates is None else self.gates.settled_onto(batch)

    def reading(self, step: int) -> AbstractContextManager[None]:
        """Around the forward passes of a step."""
        return self._inspector.reading(step)

    @contextmanager
    def stepping(self, step: int, learning_rate: float, gradient_norm: float) -> Iterator[None]:
        """Around the optimiser's step."""
        with self._inspector.looking_at(step, learning_rate, gradient_norm):
            yield
        if self.gates is not None:
            self.gates.learn()
        for site in self._spanned.values():
            site.keep_spans()

    def tensors(self) -> dict[str, Tensor]:
        """What a resume needs beside weights and optimiser."""
        found = {} if self.gates is None else self.gates.tensors()
        return found | (adapter_tensors(self._module) if self._has_adapters else {})

    def restore(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Put back what `tensors` gave; returns the rest, which is the optimiser's."""
        if self.gates is not None:
            self.gates.restore(tensors)
        if self._has_adapters:
            restore_adapters(self._module, tensors)
        return {n: t for n, t in tensors.items() if not is_of_gates(n) and not is_of_adapters(n)}
