"""What the analyses may ask of a model, so that none of them knows its architecture.

| symbol | meaning                                              | shape                        |
|--------|------------------------------------------------------|------------------------------|
| stream | what a block reads and writes                        | [batch, n_tokens, d_model]   |
| hidden | the stream before the vocabulary, last norm included | [batch, n_tokens, d_model]   |
| joined | head outputs side by side, before the projection     | [batch, n_tokens, H · D]     |

The stack that predicts is `encoder` or `decoder`; in the form encoder–decoder it is the decoder.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.model import Model
from attnscope.models.passes import evaluating, own_threads
from attnscope.nn.attention import Probe
from attnscope.nn.block import Block
from attnscope.nn.edits import QuietProbe as QuietProbe
from attnscope.nn.edits import TensorGates as TensorGates
from attnscope.nn.layers import InducedAttention
from attnscope.nn.own_module import OwnModule
from attnscope.nn.recurrent import Recurrent
from attnscope.nn.transformer import Transformer
from attnscope.records.models import Form
from attnscope.records.sites import Gates, Site, SiteKey, Stack


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenBatch:
    """Texts of one batch, padded at the end.

    `labels` [batch, n_tokens] is the token to be told at each position of the stack that predicts, −1
    where nothing is scored. `valid` and `target_valid` are False at padding, None when there is none.
    `segments` [batch, n_tokens] number the texts that a source is made of, None where each is one.
    """

    ids: Tensor
    labels: Tensor
    valid: Tensor | None = None
    target_ids: Tensor | None = None
    target_valid: Tensor | None = None
    segments: Tensor | None = None

    @property
    def n_texts(self) -> int:
        return len(self.ids)

    @property
    def n_tokens(self) -> int:
        """The tokens of all texts, padding included."""
        return self.ids.shape[0] * self.ids.shape[1] + (
            0 if self.target_ids is None else self.target_ids.numel()
        )


class Subject(Protocol):
    """A model as the analyses see it."""

    form: Form
    sites: tuple[Site, ...]

    @property
    def device(self) -> torch.device:
        """Where the model computes."""

    def studying(self) -> AbstractContextManager[None]:
        """Evaluation mode without gradients for a while; everything is put back afterwards."""

    def hidden(self, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
        """What `logits` makes logits of, at each token of the stack that predicts; see `studying`."""

    def logits(self, hidden: Tensor) -> Tensor:
        """One number per piece, for any rows of `hidden`."""


class OwnSubject:
    """A model of this program; of a Transformer also its streams, blocks and projections."""

    def __init__(self, module: OwnModule) -> None:
        self._module = module
        self.form: Form = module.config.form
        self.sites = module.sites()

    @property
    def device(self) -> torch.device:
        return self._module.device

    @property
    def module(self) -> Transformer:
        """The module when it is a Transformer; raises UserError as `require_transformer` does."""
        return self.require_transformer()

    def require_transformer(self) -> Transformer:
        """The module; raises UserError for a recurrent one, as everything does that needs its parts."""
        if not isinstance(self._module, Transformer):
            raise UserError(
                f"The model is recurrent ({self._module.config.body}): it has no stream that layers add to.",
                expected="a Transformer",
                action="Look at its maps, gates, importance or alignments, or open another model for this.",
            )
        return self._module

    def studying(self) -> AbstractContextManager[None]:
        """Evaluation mode without gradients; a model in training goes back into it."""
        return evaluating(self._module)

    def hidden(self, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
        """The stream of the stack that predicts; for labels of texts their row, [batch, 1, d_model]."""
        with own_threads(self._module, batch.n_tokens):
            return self._hidden(batch, probe)

    def _hidden(self, batch: TokenBatch, probe: Probe | None) -> Tensor:
        module = self._module
        if module.config.labels_texts:
            row = module.summarise(
                batch.ids,
                valid=batch.valid,
                second=batch.target_ids,
                second_valid=batch.target_valid,
                segments=batch.segments,
                probe=probe,
            )
            return row[:, None]
        if self.form == "decoder":
            return module.decode(batch.ids, valid=batch.valid, probe=probe)
        memory = module.encode(batch.ids, valid=batch.valid, segments=batch.segments, probe=probe)
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
        return self._module.logits(hidden)

    def blocks(self, stack: Stack) -> tuple[nn.Module, ...]:
        """The blocks of `encoder` or `decoder`."""
        blocks = {"encoder": self.module.encoder, "decoder": self.module.decoder}.get(stack, ())
        return tuple(blocks)

    def block(self, site: SiteKey) -> Block:
        stack, layer = site
        is_of_encoder = stack in ("encoder", "read-in", "latents")
        found = (self.module.encoder if is_of_encoder else self.module.decoder)[layer]
        if not isinstance(found, Block):
            raise TypeError(f"layer {layer} of the {stack} is not a block")
        return found

    def projection(self, site: SiteKey) -> nn.Linear:
        """The output projection of a site, of a recurrent model too."""
        if isinstance(self._module, Recurrent):
            attention: nn.Module | None = self._module.cross
        else:
            block = self.block(site)
            is_across = site[0] == "cross" or (site[0] == "read-in" and block.cross is not None)
            attention = block.cross if is_across else block.attention
            if site[0] == "read-in" and isinstance(attention, InducedAttention):
                attention = attention.read_in
        output = getattr(attention, "output", None)
        if not isinstance(output, nn.Linear):
            raise ValueError(f"there is no site {site}")
        return output


class HuggingFaceSubject:
    """A model of that library that tells tokens; its `hidden` are its logits already."""

    def __init__(self, network: HuggingFaceNetwork) -> None:
        self.form: Form = network.form
        self.sites = network.sites
        self._network = network

    @property
    def device(self) -> torch.device:
        return self._network.device

    def studying(self) -> AbstractContextManager[None]:
        """No gradients; such a model is always in evaluation mode."""
        return torch.no_grad()

    def hidden(self, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
        """The logits at each token."""
        arguments = {"input_ids": batch.ids}
        if batch.valid is not None:
            arguments["attention_mask"] = batch.valid.long()
        if batch.target_ids is not None:
            arguments["decoder_input_ids"] = batch.target_ids
        if batch.segments is not None and self._network.abilities.has_segments:
            arguments["token_type_ids"] = batch.segments
        with self._network.attached.probing(probe or QuietProbe()), self._network.threads(batch.n_tokens):
            logits: Tensor = self._network.module(**arguments).logits
        return logits

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden


def subject_of(model: Model) -> Subject:
    """The subject behind a model; raises UserError for one that tells no tokens or has no gates."""
    network = model.network
    if not isinstance(network, HuggingFaceNetwork):
        return OwnSubject(model.own.module)
    if network.output_kind not in ("next-token", "masked-token", "translation"):
        raise _cannot_be_scored(network)
    refuse_gateless(network)
    return HuggingFaceSubject(network)


def refuse_gateless(network: HuggingFaceNetwork) -> None:
    """Raise UserError for a model whose attention is computed by itself, out of reach."""
    if not network.attached.has_gates:
        raise _cannot_be_scored(network)


def _cannot_be_scored(network: HuggingFaceNetwork) -> UserError:
    tells = {"class": "it predicts classes", "nothing": "it has no output layer"}
    why = tells.get(network.output_kind, "its attention is computed in its own code")
    return UserError(
        f"{network.info.name} is a model whose heads cannot be scored: {why}.",
        expected="a model that predicts tokens, with heads that can be gated",
        action="Open another model for this.",
    )


def require_answers(model: Model) -> None:
    """Raise UserError for a model without logits to explain: of tokens of a text, or of classes."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork) and network.output_kind == "class":
        refuse_gateless(network)
    else:
        telling_subject(model)


def telling_subject(model: Model) -> Subject:
    """The subject behind a model that reads a text and tells tokens of it; raises UserError for others."""
    network = model.network
    if not isinstance(network, HuggingFaceNetwork):
        return own_subject(model)
    if network.output_kind == "class" or network.output_kind == "nothing" or network.info.reads != "text":
        raise no_vocabulary(model)
    return subject_of(model)


def no_vocabulary(model: Model) -> UserError:
    """The error of a model that reads no text, or tells no tokens of it."""
    reads, output = model.info.reads, model.network.output_kind
    if reads != "text":
        why = f"it reads {reads}s"
    else:
        why = "it predicts classes" if output == "class" else "it has no output layer"
    return UserError(
        f"{model.info.name} has no vocabulary of text tokens to predict from ({why}).",
        expected="a model that reads text and has a vocabulary to predict tokens from",
        action="Look at its maps, gates or measures, or open another model for this.",
    )


def gate_tensors(subject: Subject, gates: Gates) -> dict[SiteKey, Tensor]:
    """The gates of each site as float32 [n_heads] on the model's device."""
    values, sites = dict(gates.values), subject.sites
    every = torch.tensor([values.get(head, 1.0) for site in sites for head in site.heads])
    parts = torch.split(every.to(subject.device), [site.n_heads for site in sites])  # one copy for all sites
    return {site.key: part for site, part in zip(sites, parts, strict=True)}


def gate_probe(subject: Subject, gates: Gates) -> TensorGates | None:
    """The gates as a probe; None where every head is on."""
    return TensorGates(gate_tensors(subject, gates)) if gates else None


def own_subject(model: Model) -> OwnSubject:
    """The subject behind a Transformer of this program that tells tokens; raises UserError for others."""
    require_tokens(model)
    subject = OwnSubject(model.own.module)
    subject.require_transformer()
    return subject


def require_tokens(model: Model) -> None:
    """Raise UserError for a model of ours that tells labels, or whose keys are slots and no tokens."""
    config = model.own.config
    if config.n_labels:
        of = " of whole texts" if config.labels_texts else ""
        raise UserError(
            f"{model.info.name} predicts labels{of}, not tokens.",
            expected="a model that predicts tokens",
            action="Look at its maps, gates, measures or importance, or open another model for this.",
        )
    if config.n_projected:
        raise UserError(
            f"The heads of {model.info.name} attend to slots and not to tokens.",
            expected="a model without n_projected",
            action="Look at its maps, gates, measures or importance, or open another model for this.",
        )


def predicting_stack(form: Form) -> Stack:
    """The stack whose stream becomes predictions."""
    return "encoder" if form == "encoder" else "decoder"
