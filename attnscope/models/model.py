"""The program's model: text in; traces, predictions and comparisons out."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnscope.counting import html_table
from attnscope.errors import NotFiniteError, UserError
from attnscope.models.checkpoint import write_model_folder
from attnscope.models.inputs import Inputs, check_string, check_strings, with_pattern, with_segments
from attnscope.models.network import (
    Network,
    Pass,
    build_output,
    certainty_of,
    kl_nats,
    knowing,
    log_probabilities,
    written_text,
)
from attnscope.models.own import OwnNetwork, OwnPass
from attnscope.models.writing.written import SoFar, Written, check_writes, write_text
from attnscope.nn import CopiedPattern, Edits, Pattern
from attnscope.nn.long_work import ended
from attnscope.records.interventions import (
    CopyPattern,
    Intervention,
    Interventions,
    MakeMean,
    MakeUniform,
    RemoveEdge,
    UseMask,
    as_interventions,
)
from attnscope.records.models import ModelInfo, needs_model
from attnscope.records.outputs import WRITING, Comparison, Output, WriteSettings
from attnscope.records.sites import (
    NO_GATES,
    Gates,
    GateTable,
    HeadRef,
    Site,
    SiteKey,
    check_heads,
    find_site,
    gates_named,
)
from attnscope.records.tokens import Token
from attnscope.trace import GateProbe, SiteRecord, TextRecord, Trace, TraceProbe

RecordOf = Callable[[CopyPattern], SiteRecord]
"""Gives what the site of a pattern's head did on the pattern's own text."""


def build_edits(
    interventions: Interventions, sites: tuple[Site, ...], record_of: RecordOf
) -> Mapping[SiteKey, Edits]:
    """The edits of each site that has any; raises UserError for an unknown head."""
    check_heads((intervention.head for intervention in interventions), sites)
    by_site: dict[SiteKey, Interventions] = {}
    for intervention in interventions:
        keys = [intervention.head.site_key]
        if isinstance(intervention, UseMask):
            keys = [site.key for site in sites if site.stack == intervention.stack]
        for key in keys:
            by_site[key] = (*by_site.get(key, ()), intervention)
    return {key: _site_edits(own, sites, record_of) for key, own in by_site.items()}


def without_copies(edits: Mapping[SiteKey, Edits]) -> Mapping[SiteKey, Edits] | None:
    """The edits that can apply to a growing text.

    None when a copied pattern is among them, or a mask drawn for the tokens of a stack that grows.
    """
    has_fixed = any(
        site.copied or (site.cells is not None and key[0] == "decoder") for key, site in edits.items()
    )
    return None if has_fixed else edits


def _site_edits(interventions: Interventions, sites: tuple[Site, ...], record_of: RecordOf) -> Edits:
    removed: list[tuple[int, int, int]] = []
    uniform: list[int] = []
    mean: list[int] = []
    copied: dict[int, CopiedPattern] = {}
    cells: Tensor | None = None
    for intervention in interventions:
        head = intervention.head.head
        match intervention:
            case RemoveEdge():
                removed.append((head, intervention.query, intervention.key))
            case MakeUniform():
                uniform.append(head)
            case MakeMean():
                mean.append(head)
            case CopyPattern():
                check_heads((intervention.from_head,), sites)
                copied[head] = _pattern(record_of(intervention), intervention.from_head)
            case UseMask():
                cells = torch.from_numpy(intervention.cells.copy())
            case _:
                raise TypeError(f"unknown intervention {type(intervention).__name__}")
    return Edits(removed=tuple(removed), uniform=tuple(uniform), mean=tuple(mean), copied=copied, cells=cells)


def _pattern(record: SiteRecord, head: HeadRef) -> CopiedPattern:
    n_groups = record.q.shape[0] // record.k.shape[0]
    return CopiedPattern(
        q=record.q[head.head],
        k=record.k[head.head // n_groups],
        rule=record.rule,
        score=record.score,
        head=head.head,
    )


# What a model says about one text as it is, and with what was done to its heads, from one pass.


def compare_outputs(
    network: Network, inputs: Inputs, done: Pass, *, is_changed: bool, top: int
) -> Comparison:
    """The `top` candidates at the shown positions; of generated text, only the model's own target.

    A pass `is_changed` when it holds two copies: the text as it is, then as it was changed.
    """
    positions = network.shown_positions(inputs)
    if not positions:
        nothing = Output(kind=network.output_kind, predictions=())
        return Comparison(before=nothing, after=nothing, kl_nats=())
    own = inputs.target.ids[1:] if inputs.target is not None and inputs.is_own_target else None
    known = "" if own is None else written_text(network, inputs, own)

    def output(log_p: Tensor, written: str, copy: int = -1) -> Output:
        told = build_output(network, inputs, positions, log_p, top=top, generated=written)
        if written and own:
            told = replace(told, certainty=certainty_of(log_p, own))
        if not isinstance(done, OwnPass):
            return told
        p_write = done.p_write(positions, copy) if done.copies else ()
        return replace(told, follows=done.follows(copy), p_write=p_write)

    is_each = network.output_kind == "class" and network.info.tells_each
    after = log_probabilities(done.logits(positions), is_each=is_each)
    if not is_changed:
        same = output(after, known)
        return Comparison(before=same, after=same, kl_nats=(0.0,) * len(positions))
    before = log_probabilities(done.logits(positions, copy=0), is_each=is_each)
    return Comparison(
        before=output(before, known, 0), after=output(after, ""), kl_nats=kl_nats(before, after)
    )


N_CONTINUE = 8
"""Tokens that a decoder writes on after a text, unless asked for another number."""
MAX_LOGIT_BYTES = 256 * 2**20
"""A trace keeps the model's output up to this size; longer texts are asked for predictions instead."""
GateSetting = Gates | Mapping[Any, float] | None
"""Gates, a `GateTable`, or any mapping of heads (by `records.sites.HeadName`) to numbers."""
Changes = Intervention | Sequence[Intervention]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Everything about one text from the fewest passes: the gated trace, and before against after.

    `log_p` [n_predictions, n_answers] is the whole output behind `comparison.after`, when it was asked for.
    Where writing was put off, `write` does it and gives the whole comparison. Of a target that the model is
    still writing, `comparison.is_writing` holds and there is no `write`.
    """

    inputs: Inputs
    trace: Trace
    comparison: Comparison
    log_p: Tensor | None = None
    write: Callable[[], Comparison] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """Changes to the heads in one pass."""

    gates: Gates
    interventions: Interventions
    edits: Mapping[SiteKey, Edits]

    def __bool__(self) -> bool:
        return bool(self.gates) or bool(self.edits)


class Model:
    """One network with all its analyses; none of them changes it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.sites: tuple[Site, ...] = network.sites
        self._last_written: list[int] = []

    def __repr__(self) -> str:
        info = self.info
        n_heads = sum(site.n_heads for site in self.sites)
        words = f"{info.form}, {n_heads:,} heads, {info.n_parameters:,} parameters, on {info.device}"
        return f"Model {info.name}: {words}" + (f". {info.note}" if info.note else "")

    def _repr_html_(self) -> str:
        info = self.info
        heads = (f"{site.stack} L{site.layer}: {site.n_heads}" for site in self.sites)
        rows: list[tuple[str, object]] = [
            ("form", info.form),
            ("objective", info.objective),
            ("architecture", info.architecture or info.body),
            ("heads", ", ".join(heads)),
            ("parameters", info.n_parameters),
            ("vocabulary", info.vocab_size),
            ("tokenizer", info.tokenizer),
            ("longest text in tokens", info.max_tokens),
            ("device", info.device),
            ("licence", info.licence),
            ("SHA-256 of the weights", info.sha256),
            ("a text to try", info.samples[0].text if info.samples else ""),
            ("note", info.note),
        ]
        return html_table([], (row for row in rows if row[1] != ""), title=f"Model {info.name}")

    @property
    def own(self) -> OwnNetwork:
        """The network if it is one of our own; raises UserError for a library model."""
        if self.info.is_recorded:
            raise needs_model(self.info.name)
        if not isinstance(self.network, OwnNetwork):
            raise UserError(
                f"{self.info.name} is a model of another library.",
                expected="a model trained or saved by AttnScope",
                action="Open one of AttnScope's own models for this.",
            )
        return self.network

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return self.network.device

    @property
    def info(self) -> ModelInfo:
        """The model in words and numbers."""
        return self.network.info

    @property
    def first_gates(self) -> Gates:
        """The gates used by default: 0 for the heads that the model's training closed."""
        return self.network.first_gates if isinstance(self.network, OwnNetwork) else NO_GATES

    def gates(self) -> GateTable:
        """A table of gates for this model, every head at 1 except those its training closed."""
        table = GateTable(self.sites)
        for head, value in self.first_gates.values:
            table[head.stack, head.layer, head.head] = value
        return table

    def encode(self, text: str, target: str | None = None, *, past_trained: bool = False) -> Inputs:
        """Both texts as the model reads them; for a target of None, the model generates it.

        A model of the form encoder-decoder writes it greedily and with its first gates, so that the
        same target stays in place while gates are changed. `past_trained` lets our own models with computed
        positions read texts longer than they were trained for.
        """
        return self._encode(text, target, past_trained=past_trained)

    def _encode(
        self,
        text: str,
        target: str | None,
        *,
        past_trained: bool,
        hear: Callable[[Inputs], None] | None = None,
    ) -> Inputs:
        """`encode`; while the model generates the target, `hear` gets the inputs with its part so far."""
        check_strings(text, target)
        if past_trained:
            inputs = self.own.encode(text, target, past_trained=True)
        else:
            inputs = self.network.encode(text, target)
        if target is not None or self.network.form != "encoder-decoder":
            return with_segments(inputs)
        probe = GateProbe(self.sites, self.first_gates) if self.first_gates else None

        guess = self._last_written

        def hear_ids(ids: Sequence[int]) -> None:
            self._last_written = [*ids, *guess[len(ids) :]]  # should writing be stopped here
            if hear is not None:
                hear(self._part_of_own(inputs, ids))

        self._last_written = self.network.write(inputs, probe, guess=guess, hear=hear_ids)
        return self.network.own_target(inputs, self._last_written)

    def trace(
        self,
        text: str,
        target: str | None = None,
        gates: GateSetting = None,
        *,
        interventions: Changes = (),
        keep_values: bool = False,
        past_trained: bool = False,
        pattern: Pattern | None = None,
    ) -> Trace:
        """Record every attention head on one text, with head outputs multiplied by `gates` (None:
        `first_gates`).

        `keep_values` keeps each site's values and outputs too, at twice the memory or more; `past_trained`
        is as in `encode`. `pattern` replaces the mask of one of our own models in the self-attention of the
        source, for instance by a graph's (`nn.patterns.graph_mask`), special tokens included.

        A text longer than the model reads is cut: `trace.source.cut_words` (and `trace.target.cut_words`)
        says what was not read, and is empty otherwise; `trace.source.n_dropped` counts the tokens.
        `gates` may be any mapping of heads to numbers, such as {("encoder", 0, 1): 0.0} or {"L0H1": 0.0};
        `interventions` one change or several.
        """
        change = self._change(gates, interventions)
        probe = TraceProbe(self.sites, change.gates, edits=change.edits, keep_values=keep_values)
        inputs = self.encode(text, target, past_trained=past_trained)
        if pattern is not None and self.own:
            inputs = with_pattern(inputs, pattern)
        done = self.network.run(inputs, probe)
        return self._build_trace(inputs, change, probe, done, has_logits=True)

    def trace_site(
        self,
        site: SiteKey,
        text: str,
        target: str | None = None,
        gates: GateSetting = None,
        *,
        interventions: Changes = (),
        past_trained: bool = False,
    ) -> Trace:
        """`trace` for one `site`, with its values, at little more than the cost of the pass."""
        wanted, change = frozenset((find_site(self.sites, site).key,)), self._change(gates, interventions)
        probe = TraceProbe(self.sites, change.gates, wanted=wanted, edits=change.edits, keep_values=True)
        inputs = self.encode(text, target, past_trained=past_trained)
        done = self.network.run(inputs, probe)
        return self._trace_of(inputs, change, probe.records, self._follows(inputs, done))

    def predict(
        self,
        text: str,
        target: str | None = None,
        gates: GateSetting = None,
        top: int = 10,
        n_continue: int = N_CONTINUE,
    ) -> Output:
        """Predictions with these gates: the `top` tokens at each position of interest.

        `n_continue` is the number of tokens that a decoder generates greedily.
        """
        return self.compare(text, target, gates, top=top, n_continue=n_continue).after

    def compare(
        self,
        text: str,
        target: str | None = None,
        gates: GateSetting = None,
        *,
        interventions: Changes = (),
        top: int = 10,
        n_continue: int = N_CONTINUE,
    ) -> Comparison:
        """Compare the output with and without gates and interventions, in one pass of two texts.

        `n_continue` is the number of tokens that a decoder generates greedily. With 0 nothing is generated,
        which saves time, unless the target is the model's own.
        """
        change = self._change(gates, interventions)
        probe = GateProbe(self.sites, change.gates, is_paired=bool(change), edits=change.edits)
        inputs = self.encode(text, target)
        done = self.network.run(inputs, probe, n_copies=2 if change else 1)
        comparison = compare_outputs(self.network, inputs, done, is_changed=bool(change), top=top)
        write = self._writer(inputs, change, comparison, n_continue)
        return write() if write is not None else comparison

    def look(
        self,
        text: str,
        target: str | None = None,
        gates: GateSetting = None,
        *,
        interventions: Changes = (),
        top: int = 10,
        n_continue: int = N_CONTINUE,
        past_trained: bool = False,
        keep_output: bool = False,
        is_writing_later: bool = False,
        hear: Callable[[Trace], None] | None = None,
        hear_target: Callable[[Callable[[], Look]], None] | None = None,
    ) -> Look:
        """`trace` (without its logits) and `compare` at once, for the cost of one of them.

        `top`, `n_continue` and `past_trained` are as there; `keep_output` keeps the log-probabilities in
        `log_p`. With `is_writing_later`, texts that take passes of their own to write are left to
        `Look.write`. Of a long text `hear` gets a trace of the sites that are known, after each of them.
        While the model writes its own target, `hear_target` gets after each pass what looks at the target as
        far as it is written: its rows are those that the whole target will have. Interventions wait for the
        whole.
        """
        change = self._change(gates, interventions)

        def hear_records(records: Mapping[SiteKey, SiteRecord]) -> None:
            if hear is not None:
                hear(self._trace_of(inputs, change, records))

        def hear_inputs(part: Inputs) -> None:
            if hear_target is not None:
                hear_target(partial(self._look_at_part, part, change, top))

        is_grown = hear_target is not None and not change.interventions
        inputs = self._encode(text, target, past_trained=past_trained, hear=hear_inputs if is_grown else None)
        done, trace = self._run(inputs, change, hear_records)
        try:
            comparison = compare_outputs(self.network, inputs, done, is_changed=bool(change), top=top)
            write = self._writer(inputs, change, comparison, n_continue)
            if write is not None and not is_writing_later:
                comparison, write = write(), None
        except NotFiniteError as error:  # its maps can be looked at all the same
            comparison, write = self._refused(error), None
        is_output_kept = keep_output and not comparison.refused
        positions = self.network.shown_positions(inputs) if is_output_kept else []
        is_each = self.network.output_kind == "class" and self.info.tells_each
        log_p = log_probabilities(done.logits(positions), is_each=is_each) if positions else None
        comparison = replace(comparison, is_writing=write is not None)
        return Look(inputs=inputs, trace=trace, comparison=comparison, log_p=log_p, write=write)

    def _part_of_own(self, inputs: Inputs, ids: Sequence[int]) -> Inputs:
        """The inputs with the generated part of the target except its last token, which follows it."""
        part = self.network.own_target(inputs, ids[:-1])
        if part.target is None:
            return part
        following = knowing(self.network, inputs).answer(ids[-1])
        return replace(part, target=replace(part.target, following=following))

    def _look_at_part(self, inputs: Inputs, change: _Change, top: int) -> Look:
        """`look` at a target that the model is still generating."""
        done, trace = self._run(inputs, change)
        try:
            comparison = compare_outputs(self.network, inputs, done, is_changed=bool(change), top=top)
        except NotFiniteError as error:
            comparison = self._refused(error)
        return Look(inputs=inputs, trace=trace, comparison=replace(comparison, is_writing=True))

    def generate(self, text: str, gates: GateSetting = None, max_tokens: int = 50) -> str:
        """Generate greedily: a continuation of up to `max_tokens`, or a translation.

        A continuation ends where the model has no more positions. Raises UserError for an encoder.
        """
        check_writes(self.network)
        check_string(text, "the text")
        probe = self._writing_probe(self._change(gates, ()))
        inputs = self.network.encode(text)
        return written_text(self.network, inputs, self.network.write(inputs, probe, n_tokens=max_tokens))

    def write(
        self,
        text: str,
        settings: WriteSettings | None = None,
        gates: GateSetting = None,
        *,
        prefix: str = "",
    ) -> Written:
        """Generate after `text`, or translate it after `prefix`, and record the attention.

        `settings` say how each token is chosen, greedily by default. Raises UserError for an encoder.
        """
        return ended(self.writing(text, settings, gates, prefix=prefix))

    def writing(
        self,
        text: str,
        settings: WriteSettings | None = None,
        gates: GateSetting = None,
        *,
        prefix: str = "",
    ) -> Generator[SoFar, None, Written]:
        """`write` token by token: yields the text so far after each one, and returns the complete text.

        `settings` and `prefix` are as there.
        """
        settings = WriteSettings() if settings is None else settings
        return write_text(self.network, text, settings, self._frozen(gates), prefix=prefix)

    def edits(self, interventions: Changes) -> Mapping[SiteKey, Edits]:
        """Edits at each site for some interventions, for a probe; raises UserError for an unknown head."""
        changes = as_interventions(interventions, self.sites)
        return build_edits(changes, self.sites, self._record_for) if changes else {}

    def prune(self, gates: Gates | GateTable, text: str = "", target: str | None = None) -> "Model":
        """A smaller copy without the heads whose gate in `gates` is 0.

        Raises SaveError unless its outputs are proved to be those of the gated model, on random ids and on a
        text.
        """
        from attnscope.models.pruning import prune  # brings the reading of pictures along

        read = self.encode(text, target) if text.strip() else None
        return Model(prune(self.network, gates, read, has_speed=False).network)

    def save(self, folder: str | Path, *, base: str = "") -> None:
        """Save as a model folder; on any error raises SaveError and leaves an older folder untouched.

        With `base`, the name of a model that comes with the program, only what differs from its weights is
        written, and opening puts both together. Raises LoadError for another name.
        """
        own = self.own
        write_model_folder(Path(folder), own.module, own.config, own.vocabulary, own.card, base=base)

    def save_for_transformers(self, folder: str | Path) -> tuple[str, float]:
        """Save in `folder` for the library transformers, as GPT-2, GPT-NeoX or Llama, if the model is
        equivalent to one.

        Gives the architecture's name, and how far its logits are from ours at most. Raises UserError for a
        model that is none of them, with what keeps it from that; SaveError where nothing could be written.
        """
        from attnscope.models.huggingface.saving import write_library_folder  # seldom needed

        own = self.own
        return write_library_folder(Path(folder), own.module, own.vocabulary, own.card.text)

    # -- inside ---------------------------------------------------------------------------------

    def _change(self, gates: GateSetting, interventions: Changes) -> _Change:
        changes = as_interventions(interventions, self.sites)
        return _Change(gates=self._frozen(gates), interventions=changes, edits=self.edits(changes))

    def _frozen(self, gates: GateSetting) -> Gates:
        if gates is None:
            return self.first_gates
        return gates if isinstance(gates, Gates) else gates_named(gates, self.sites)

    def _record_for(self, pattern: CopyPattern) -> SiteRecord:
        """Record of a pattern's site on the pattern's own text, without changes."""
        key = pattern.from_head.site_key
        probe = TraceProbe(self.sites, NO_GATES, wanted=frozenset((key,)))
        self.network.run(self.encode(pattern.text, pattern.target), probe)
        return probe.records[key]

    def _refused(self, error: NotFiniteError) -> Comparison:
        nothing = Output(kind=self.network.output_kind, predictions=())
        return Comparison(before=nothing, after=nothing, kl_nats=(), refused=str(error))

    def _run(
        self,
        inputs: Inputs,
        change: _Change,
        hear: Callable[[Mapping[SiteKey, SiteRecord]], object] = lambda _records: None,
    ) -> tuple[Pass, Trace]:
        """One pass with its trace: of the changed text, after the unchanged one."""
        probe = TraceProbe(self.sites, change.gates, is_paired=bool(change), edits=change.edits, hear=hear)
        done = self.network.run(inputs, probe, n_copies=2 if change else 1)
        return done, self._build_trace(inputs, change, probe, done, has_logits=False)

    def _trace_of(
        self,
        inputs: Inputs,
        change: _Change,
        records: Mapping[SiteKey, SiteRecord],
        follows: Callable[[], Token] | None = None,
    ) -> Trace:
        return Trace(
            TextRecord(
                sites=tuple(site for site in self.sites if site.key in records),
                gates=change.gates,
                source=inputs.source,
                target=inputs.target,
                records=records,
                interventions=change.interventions,
            ),
            follows=follows,
        )

    def _build_trace(
        self, inputs: Inputs, change: _Change, probe: TraceProbe, done: Pass, *, has_logits: bool
    ) -> Trace:
        logits = None
        if has_logits and self.network.output_kind != "nothing":
            n_answered = len(inputs.source if inputs.target is None else inputs.target)
            is_small = 4 * n_answered * self.info.vocab_size <= MAX_LOGIT_BYTES
            logits = done.logits() if is_small else None
        return Trace(
            TextRecord(
                sites=self.sites,
                gates=change.gates,
                source=inputs.source,
                target=inputs.target,
                records=probe.records,
                logits=logits,
                interventions=change.interventions,
            ),
            follows=self._follows(inputs, done),
        )

    def _follows(self, inputs: Inputs, done: Pass) -> Callable[[], Token] | None:
        """Tokens generated after the target, if the target's tokens are read to generate the next one."""
        target = inputs.target
        if not target or target.following is not None or self.network.output_kind != "translation":
            return None
        best = done.logits([len(target) - 1])[0].argmax()
        return lambda: knowing(self.network, inputs).answer(int(best))

    def _writer(
        self, inputs: Inputs, change: _Change, comparison: Comparison, n_continue: int
    ) -> Callable[[], Comparison] | None:
        """Function that adds generated text to a comparison; None if that takes no pass."""
        if self.network.output_kind not in WRITING:
            return None
        if not (change if inputs.is_own_target else n_continue > 0):
            return None

        def write() -> Comparison:
            before, after = self._written(inputs, change, n_continue)
            first = replace(comparison.before, generated=before)
            second = replace(comparison.after, generated=after) if change else first
            return replace(comparison, before=first, after=second)

        return write

    def _written(self, inputs: Inputs, change: _Change, n_continue: int) -> tuple[str, str]:
        """Text generated by the unchanged and the changed model.

        A copied pattern is of one text and cannot go with a text that grows: nothing is written then.
        """
        network = self.network
        n_tokens = n_continue if network.form == "decoder" else None
        target: Sequence[int] = inputs.target.ids[1:] if inputs.target is not None else ()
        if inputs.is_own_target:
            before = list(target)
        else:
            guess = self._last_written if network.form == "decoder" else target
            before = network.write(inputs, n_tokens=n_tokens, guess=guess)
        if network.form == "decoder":
            self._last_written = before
        decode = partial(written_text, network, inputs)
        if not change:
            return decode(before), decode(before)
        probe = self._writing_probe(change)
        if probe is None:
            return decode(before), ""
        return decode(before), decode(network.write(inputs, probe, n_tokens=n_tokens, guess=before))

    def _writing_probe(self, change: _Change) -> GateProbe | None:
        edits = without_copies(change.edits)
        return None if edits is None else GateProbe(self.sites, change.gates, edits=edits)
