"""What the analyses may ask of a model, so that none of them knows its architecture.

| symbol | meaning                                              | shape                        |
|--------|------------------------------------------------------|------------------------------|
| stream | what a block reads and writes                        | [batch, n_tokens, d_model]   |
| hidden | the stream before the vocabulary, last norm included | [batch, n_tokens, d_model]   |
| joined | head outputs side by side, before the projection     | [batch, n_tokens, H · D]     |

The stack that predicts is `encoder` or `decoder`; in the form encoder–decoder it is the decoder.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.model import Model
from attnscope.models.passes import evaluating
from attnscope.nn.attention import Probe
from attnscope.nn.block import Block
from attnscope.nn.edits import Call, Edits
from attnscope.nn.transformer import Transformer
from attnscope.records.models import Form
from attnscope.records.sites import Site, SiteKey, Stack


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Texts of one batch, padded at the end.

    `labels` [batch, n_tokens] is the token to be told at each position of the stack that predicts, −1
    where nothing is scored. `valid` and `target_valid` are False at padding, None when there is none.
    """

    ids: Tensor
    labels: Tensor
    valid: Tensor | None = None
    target_ids: Tensor | None = None
    target_valid: Tensor | None = None

    @property
    def n_texts(self) -> int:
        """Texts in the batch."""
        return len(self.ids)


class Subject(Protocol):
    """A model as the analyses see it."""

    form: Form
    sites: tuple[Site, ...]

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        ...

    def studying(self) -> AbstractContextManager[None]:
        """Evaluation mode without gradients for a while; everything is put back afterwards."""
        ...

    def hidden(self, batch: Batch, probe: Probe | None = None) -> Tensor:
        """What `logits` makes logits of, at each token of the stack that predicts; see `studying`."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """One number per piece, for any rows of `hidden`."""
        ...


class OwnSubject:
    """A Transformer of this program: also its streams, blocks and projections."""

    def __init__(self, module: Transformer) -> None:
        self.module = module
        self.form: Form = module.config.form
        self.sites = module.sites()

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.module.tokens.weight.device

    def studying(self) -> AbstractContextManager[None]:
        """Evaluation mode without gradients; a model in training goes back into it."""
        return evaluating(self.module)

    def hidden(self, batch: Batch, probe: Probe | None = None) -> Tensor:
        """The hidden stream of the stack that predicts."""
        module = self.module
        if self.form == "decoder":
            return module.decode(batch.ids, valid=batch.valid, probe=probe)
        memory = module.encode(batch.ids, valid=batch.valid, probe=probe)
        if batch.target_ids is None:
            return memory
        return module.decode(
            batch.target_ids,
            memory=memory,
            memory_valid=batch.valid,
            valid=batch.target_valid,
            probe=probe,
        )

    def finish(self, stream: Tensor) -> Tensor:
        """The stream after the last norm; post-norm models have none left to apply."""
        module = self.module
        norm = module.encoder_norm if self.form == "encoder" else module.decoder_norm
        finished: Tensor = stream if norm is None else norm(stream)
        return finished

    def logits(self, hidden: Tensor) -> Tensor:
        """One number per piece."""
        return self.module.logits(hidden)

    def blocks(self, stack: Stack) -> tuple[nn.Module, ...]:
        """The blocks of `encoder` or `decoder`."""
        blocks = {"encoder": self.module.encoder, "decoder": self.module.decoder}.get(stack, ())
        return tuple(blocks)

    def block(self, site: SiteKey) -> Block:
        """The block that a site is part of."""
        stack, layer = site
        found = (self.module.encoder if stack == "encoder" else self.module.decoder)[layer]
        if not isinstance(found, Block):
            raise TypeError(f"layer {layer} of the {stack} is no block")
        return found

    def projection(self, site: SiteKey) -> nn.Linear:
        """The output projection of a site."""
        block = self.block(site)
        attention = block.cross if site[0] == "cross" else block.attention
        output = getattr(attention, "output", None)
        if not isinstance(output, nn.Linear):
            raise ValueError(f"there is no site {site}")
        return output


class QuietProbe:
    """A probe that does nothing; the analyses' own probes start from it."""

    def gate(self, site: SiteKey) -> Tensor | None:
        """No gate."""
        return None

    def edits(self, site: SiteKey) -> Edits | None:
        """No edit."""
        return None

    def wants(self, site: SiteKey) -> bool:
        """No record."""
        return False

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Nothing is kept."""


class TensorGates(QuietProbe):
    """Gates as tensors, [n_heads] or [batch, n_heads], through which gradients pass."""

    def __init__(self, gates: Mapping[SiteKey, Tensor]) -> None:
        self._gates = gates

    def gate(self, site: SiteKey) -> Tensor | None:
        """The gate of the site, or None."""
        return self._gates.get(site)


class HuggingFaceSubject:
    """A model of that library that tells tokens; its `hidden` are its logits already."""

    def __init__(self, network: HuggingFaceNetwork) -> None:
        self.form: Form = network.form
        self.sites = network.sites
        self._network = network

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self._network.device

    def studying(self) -> AbstractContextManager[None]:
        """No gradients; such a model is always in evaluation mode."""
        return torch.no_grad()

    def hidden(self, batch: Batch, probe: Probe | None = None) -> Tensor:
        """The logits at each token."""
        arguments = {"input_ids": batch.ids}
        if batch.valid is not None:
            arguments["attention_mask"] = batch.valid.long()
        if batch.target_ids is not None:
            arguments["decoder_input_ids"] = batch.target_ids
        with self._network.attached.probing(probe or QuietProbe()):
            logits: Tensor = self._network.module(**arguments).logits
        return logits

    def logits(self, hidden: Tensor) -> Tensor:
        """The same again."""
        return hidden


def subject_of(model: Model) -> Subject:
    """The subject behind a model; raises UserError for one that tells no tokens or has no gates."""
    network = model.network
    if not isinstance(network, HuggingFaceNetwork):
        return own_subject(model)
    if (
        network.output_kind not in ("next-token", "masked-token", "translation")
        or not network.attached.has_gates
    ):
        raise UserError(
            f"{model.info.name} is a model whose heads cannot be scored.",
            expected="a model that tells tokens, with heads that can be gated",
            action="Open another model for this.",
        )
    return HuggingFaceSubject(network)


def own_subject(model: Model) -> OwnSubject:
    """The subject behind a model of this program; raises UserError for one of another library."""
    return OwnSubject(model.own.module)


def predicting_stack(form: Form) -> Stack:
    """The stack whose stream becomes predictions."""
    return "encoder" if form == "encoder" else "decoder"


def exact(tensor: Tensor) -> Tensor:
    """The tensor in float64, on the CPU where its device has no double precision."""
    return tensor.cpu().double() if tensor.device.type == "mps" else tensor.double()
