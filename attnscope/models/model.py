"""What the rest of the program calls a model: text in; traces, predictions and comparisons out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.card import ModelCard, Objective
from attnscope.models.checkpoint import write_model_folder
from attnscope.models.inputs import Inputs, encode_source, encode_target, own_target
from attnscope.models.outputs import build_output, kl_nats, log_probabilities, shown_positions
from attnscope.models.passes import continue_text, evaluating, hidden_stream, translate
from attnscope.nn.config import ModelConfig, count_parameters
from attnscope.nn.transformer import Transformer
from attnscope.records.models import ModelInfo
from attnscope.records.outputs import Comparison, Output
from attnscope.records.sites import NO_GATES, Gates, GateTable, Site
from attnscope.text.samples import samples_for
from attnscope.text.tokenizer import Tokenizer
from attnscope.trace.probe import GateProbe, TraceProbe
from attnscope.trace.trace import Trace

N_CONTINUE = 8
"""Tokens that a decoder writes on after a text, unless asked for another number."""
GateSetting = Gates | GateTable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Everything about one text from the fewest passes: the gated trace, and before against after."""

    inputs: Inputs
    trace: Trace
    comparison: Comparison


class Model:
    """A Transformer with its tokenizer; it may be in training, and looking at it changes nothing."""

    def __init__(
        self,
        module: Transformer,
        tokenizer: Tokenizer,
        card: ModelCard,
        *,
        source: str = "",
        sha256: str = "",
        note: str = "",
    ) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self.card = card
        self.sites: tuple[Site, ...] = module.sites()
        self._source, self._sha256, self._note = source, sha256, note
        self._last_written: list[int] = []

    @property
    def config(self) -> ModelConfig:
        """The architecture."""
        return self.module.config

    @property
    def objective(self) -> Objective:
        """What the model learned to do: `causal`, `masked` or `translation`."""
        return self.card.objective

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.module.tokens.weight.device

    @property
    def info(self) -> ModelInfo:
        """The model in words and numbers."""
        config = self.config
        task = self.card.training.get("task")
        return ModelInfo(
            name=self.card.name,
            source=self._source,
            form=config.form,
            objective=self.objective,
            n_parameters=count_parameters(config).total,
            max_tokens=config.max_tokens,
            vocab_size=config.vocab_size,
            tokenizer=self.tokenizer.kind,
            device=str(self.device),
            sha256=self._sha256,
            sites=self.sites,
            samples=samples_for(config.form, task if isinstance(task, str) else self.objective),
            note=self._note,
        )

    def gates(self) -> GateTable:
        """A table of gates for this model, every head at 1."""
        return GateTable(self.sites)

    def encode(self, text: str, target: str | None = None) -> Inputs:
        """Both texts as the model reads them; a target of None is what the model itself writes.

        A model of the form encoder-decoder writes it greedily and without gates, so that the
        same target stays in place while gates are changed.
        """
        form, max_tokens = self.config.form, self.config.max_tokens
        source = encode_source(self.tokenizer, form, text, max_tokens)
        if target is not None:
            return Inputs(source=source, target=encode_target(self.tokenizer, form, target, max_tokens))
        if form != "encoder-decoder":
            return Inputs(source=source)
        with evaluating(self.module):
            self._last_written = self._translate(source.ids, NO_GATES, self._last_written)
        written = own_target(self.tokenizer, self._last_written)
        return Inputs(source=source, target=written, is_own_target=True)

    def trace(self, text: str, target: str | None = None, gates: GateSetting = None) -> Trace:
        """Every attention head on one text, with head outputs multiplied by `gates`."""
        frozen = _frozen(gates)
        probe = TraceProbe(self.sites, frozen)
        inputs = self.encode(text, target)
        with evaluating(self.module):
            hidden = hidden_stream(self.module, inputs, probe)
            return self._build_trace(inputs, frozen, probe, hidden)

    def predict(
        self,
        text: str,
        target: str | None = None,
        gates: GateSetting = None,
        top: int = 10,
        n_continue: int = N_CONTINUE,
    ) -> Output:
        """What the model says with these gates: the `top` tokens at each position of interest."""
        return self.compare(text, target, gates, top, n_continue).after

    def compare(
        self,
        text: str,
        target: str | None = None,
        gates: GateSetting = None,
        top: int = 10,
        n_continue: int = N_CONTINUE,
    ) -> Comparison:
        """The output without gates against the output with them, from one pass of a batch of two.

        `n_continue` is the number of tokens that a decoder writes on greedily. With 0 nothing is written,
        which saves the time, unless the target is the model's own.
        """
        frozen = _frozen(gates)
        probe = GateProbe(self.sites, frozen, is_paired=bool(frozen))
        inputs = self.encode(text, target)
        with evaluating(self.module):
            hidden = hidden_stream(self.module, inputs, probe, is_paired=bool(frozen))
            return self._compare(inputs, frozen, hidden, None, top=top, n_continue=n_continue)

    def look(
        self,
        text: str,
        target: str | None = None,
        gates: GateSetting = None,
        top: int = 10,
        n_continue: int = N_CONTINUE,
    ) -> Look:
        """`trace` and `compare` at once, for the price of one of them."""
        frozen = _frozen(gates)
        probe = TraceProbe(self.sites, frozen, is_paired=bool(frozen))
        inputs = self.encode(text, target)
        with evaluating(self.module):
            hidden = hidden_stream(self.module, inputs, probe, is_paired=bool(frozen))
            trace = self._build_trace(inputs, frozen, probe, hidden)
            comparison = self._compare(
                inputs, frozen, hidden, trace.logits_tensor(), top=top, n_continue=n_continue
            )
        return Look(inputs=inputs, trace=trace, comparison=comparison)

    def generate(self, text: str, gates: GateSetting = None, max_tokens: int = 50) -> str:
        """What the model writes greedily: a continuation, or a translation.

        A continuation ends where the model has no more positions. Raises UserError for an encoder.
        """
        form, frozen = self.config.form, _frozen(gates)
        if form == "encoder":
            raise UserError(
                "A masked model fills in words; it does not write text.",
                expected="a causal or a translation model",
                action="Use its predictions instead.",
            )
        source = encode_source(self.tokenizer, form, text, self.config.max_tokens)
        with evaluating(self.module):
            if form == "decoder":
                return self.tokenizer.decode(self._continue(source.ids, frozen, max_tokens, ()))
            return self.tokenizer.decode(self._translate(source.ids, frozen, (), max_tokens))

    def save(self, folder: str | Path) -> None:
        """Save as a model folder; raises SaveError and leaves an older folder on any fault."""
        write_model_folder(Path(folder), self.module, self.config, self.tokenizer, self.card)

    # -- inside ---------------------------------------------------------------------------------

    def _build_trace(self, inputs: Inputs, gates: Gates, probe: TraceProbe, hidden: Tensor) -> Trace:
        return Trace(
            sites=self.sites,
            gates=gates,
            source=inputs.source,
            target=inputs.target,
            records=probe.records,
            logits=self.module.logits(hidden[-1]).float(),
        )

    def _compare(
        self,
        inputs: Inputs,
        gates: Gates,
        hidden: Tensor,
        logits: Tensor | None,
        *,
        top: int,
        n_continue: int,
    ) -> Comparison:
        form, module = self.config.form, self.module
        mask_id = self.tokenizer.mask_id if self.tokenizer.has("mask") else None
        positions = shown_positions(form, inputs, mask_id)
        after = log_probabilities(
            module.logits(hidden[-1, positions]) if logits is None else logits[positions]
        )
        texts = self._generated(inputs, gates, n_continue)

        def output(log_p: Tensor, generated: str) -> Output:
            return build_output(
                form,
                inputs,
                positions,
                log_p,
                tokenizer=self.tokenizer,
                mask_id=mask_id,
                top=top,
                generated=generated,
            )

        if not gates:
            same = output(after, texts[0])
            return Comparison(before=same, after=same, kl_nats=(0.0,) * len(positions))
        before = log_probabilities(module.logits(hidden[0, positions]))
        return Comparison(
            before=output(before, texts[0]), after=output(after, texts[1]), kl_nats=kl_nats(before, after)
        )

    def _generated(self, inputs: Inputs, gates: Gates, n_continue: int) -> tuple[str, str]:
        """What the model writes without gates and with them; empty for an encoder."""
        form, source = self.config.form, inputs.source.ids
        if form == "encoder" or (n_continue <= 0 and not inputs.is_own_target):
            return "", ""
        if form == "decoder":
            before = self._continue(source, NO_GATES, n_continue, self._last_written)
            after = self._continue(source, gates, n_continue, before) if gates else before
            self._last_written = before
        else:
            target = inputs.target.ids[1:] if inputs.target is not None else ()
            before = list(target) if inputs.is_own_target else self._translate(source, NO_GATES, target)
            after = self._translate(source, gates, before) if gates else before
        return self.tokenizer.decode(before), self.tokenizer.decode(after)

    def _continue(self, ids: Sequence[int], gates: Gates, n_tokens: int, guess: Sequence[int]) -> list[int]:
        return continue_text(
            self.module,
            ids,
            GateProbe(self.sites, gates) if gates else None,
            n_tokens=n_tokens,
            end_id=self.tokenizer.end_id if self.tokenizer.has("end") else None,
            guess=guess,
        )

    def _translate(
        self, source: Sequence[int], gates: Gates, guess: Sequence[int], n_tokens: int | None = None
    ) -> list[int]:
        # A model in training may never write its end token: half as long again and some shows that.
        return translate(
            self.module,
            source,
            GateProbe(self.sites, gates) if gates else None,
            begin_id=self.tokenizer.begin_id,
            end_id=self.tokenizer.end_id,
            n_tokens=3 * len(source) // 2 + 10 if n_tokens is None else n_tokens,
            guess=guess,
        )


def _frozen(gates: GateSetting) -> Gates:
    if gates is None:
        return NO_GATES
    return gates.frozen() if isinstance(gates, GateTable) else gates
