"""Gates of heads learned along with the weights, under an L0 penalty (Voita et al. 2019, section 6).

| symbol    | meaning                                                  | shape              |
|-----------|----------------------------------------------------------|--------------------|
| log_alpha | what is learned for each site                            | [n_heads]          |
| z         | gates drawn for each text of a batch (`nn/hard_concrete.py`)    | [B, n_heads]       |

What is minimised is E[L] + λ · Σ_h P(z_h ≠ 0), L in nats per token. Gates have an Adam of their own with a
constant rate. What a checkpoint keeps, and what held-out losses are measured with, are the gates without
noise, rounded: a head is there or it is not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from attnscope.errors import LoadError
from attnscope.nn.hard_concrete import START_LOG_ALPHA, open_probability, sample_gates, settled_gates
from attnscope.records.models import Form
from attnscope.records.sites import HeadRef, Site, SiteKey
from attnscope.training.objectives import Batch
from attnscope.training.parts import GatesPart
from attnscope.training.recipe import gated_stacks

_PREFIX = "gates/"
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
        """How many heads have gates."""
        return sum(len(values) for values in self._log_alpha.values())

    def onto(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """The batch with gates drawn for each of its texts."""
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
        """Forget the gradients of the step before."""
        self._adam.zero_grad(set_to_none=True)

    def learn(self) -> None:
        """Take one step, the penalty's gradient added to what the batches gave."""
        torch.autograd.backward(self.penalty * self._expected())
        self._adam.step()

    def expected_open(self) -> float:
        """Σ P(z ≠ 0): how many heads are expected to be open."""
        with torch.no_grad():
            return float(self._expected())

    def settled_onto(self, batch: Batch) -> Batch:
        """The batch with the gates that a checkpoint keeps, each 0 or 1."""
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
        """What a resume needs, named `gates/stack.layer/what`."""
        found = {}
        for (stack, layer), log_alpha in self._log_alpha.items():
            values = {"log_alpha": log_alpha, **self._adam.state.get(log_alpha, {})}
            for what, value in values.items():
                found[f"{_PREFIX}{stack}.{layer}/{what}"] = torch.as_tensor(value).detach().cpu().clone()
        return found

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` gave; raises LoadError when it is of other heads."""
        for (stack, layer), log_alpha in self._log_alpha.items():
            prefix = f"{_PREFIX}{stack}.{layer}/"
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


def build_gates(sites: Iterable[Site], part: GatesPart, form: Form, device: torch.device) -> HeadGates | None:
    """The gates that a recipe asks for; None when it asks for none."""
    stacks = gated_stacks(part, form)
    gated = [site for site in sites if site.stack in stacks]
    return HeadGates(gated, part, device) if gated else None


def is_of_gates(name: str) -> bool:
    """Whether a tensor of a saved state is one of `HeadGates.tensors`."""
    return name.startswith(_PREFIX)
