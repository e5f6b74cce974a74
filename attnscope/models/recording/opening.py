"""Opening files of recorded attention, and of traces, as something to look at.

Recorded attention in the place of a network, so that everything that only looks at heads works with it.

It has one text, which it cannot read anew, and gives no output: what needs a model is refused by name.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from attnscope.errors import LoadError, UserError
from attnscope.files import sha256_of
from attnscope.hub.shelf import is_model_id
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.models.network import HearIds
from attnscope.models.opening import load
from attnscope.nn.attention import Probe
from attnscope.nn.edits import Call
from attnscope.records.models import (
    Form,
    ModelInfo,
    Recorded,
    Sample,
    is_download,
    needs_model,
    on_this_machine,
)
from attnscope.records.outputs import OutputKind
from attnscope.records.sites import Site, require_heads
from attnscope.records.tokens import Token, Tokens
from attnscope.text.vocabulary import Vocabulary as Entries
from attnscope.trace.record import SiteRecord, TraceProbe
from attnscope.trace.store import is_trace_file
from attnscope.trace.trace import Trace, load_trace

MAX_SHOWN = 2000
"""Longer texts are shown by their beginning."""


class RecordedNetwork:
    """What a trace knows, as a `Network`; see the module."""

    is_training = False
    output_kind: OutputKind = "nothing"

    def __init__(self, trace: Trace, *, source: str, sha256: str = "") -> None:
        self.trace, self._source, self._sha256 = trace, source, sha256
        self.vocabulary = RecordedVocabulary(self.recorded.name)

    @property
    def recorded(self) -> Recorded:
        """Where the attention comes from; the trace of a model tells its text only, and goes by its file."""
        return self.trace.recorded or Recorded(name=Path(self._source).name)

    @property
    def form(self) -> Form:
        """As its first stack is."""
        return "decoder" if self.trace.sites[0].stack == "decoder" else "encoder"

    @property
    def sites(self) -> tuple[Site, ...]:
        return self.trace.sites

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def max_tokens(self) -> int:
        return max(len(self.trace.source), len(self.trace.target or ()))

    @property
    def info(self) -> ModelInfo:
        """See `Network`; its one sample is the recorded text."""
        target = self.trace.target
        sample = Sample(
            text=shown_text(self.trace.source),
            target=None if target is None else shown_text(target),
            hint="the recorded text",
        )
        return ModelInfo(
            name=self.recorded.name,
            source=self._source,
            form=self.form,
            objective="nothing: its attention was recorded",
            n_parameters=0,
            max_tokens=self.max_tokens,
            vocab_size=0,
            tokenizer="none",
            device="cpu",
            sha256=self._sha256,
            sites=self.sites,
            samples=(sample,),
            note=self._note(),
            reads="attention",
            reads_pairs=target is not None,
            site_names=self.recorded.site_names,
        )

    def encode(self, text: str, target: str | None = None) -> Inputs:
        """The recorded text; raises UserError for another one."""
        known = self.info.samples[0]
        for given, own in ((text, known.text), (target, known.target)):
            if given is not None and given.strip() and given.strip() != (own or "").strip():
                raise UserError(
                    f"{self.recorded.name} is recorded attention: it cannot read another text.",
                    expected=f"the recorded text, “{(own or '')[:60]}”, or none",
                    action="Record the module on the other text, or open a model.",
                )
        return Inputs(source=self.trace.source, target=self.trace.target)

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        return inputs

    def run(self, inputs: Inputs, probe: Probe | None = None, *, n_copies: int = 1) -> "EmptyPass":
        """Show what was recorded to `probe`; raises UserError when it gates or edits a head."""
        if probe is None:
            return EmptyPass(self.recorded.name)
        for site in self.sites:
            if probe.gate(site.key) is not None or probe.edits(site.key) is not None:
                raise needs_model(self.recorded.name, "Changing heads")
        if isinstance(probe, TraceProbe):
            probe.keep(self.trace.records)
            return EmptyPass(self.recorded.name)
        for site in self.sites:
            if probe.wants(site.key):
                _show(probe, site, self.trace.records[site.key])
        return EmptyPass(self.recorded.name)

    def write(
        self,
        inputs: Inputs,
        probe: Probe | None = None,
        *,
        n_tokens: int | None = None,
        guess: Sequence[int] = (),
        hear: HearIds | None = None,
    ) -> list[int]:
        """Raises UserError: nothing can write."""
        raise needs_model(self.recorded.name, "Writing")

    def answer(self, id: int) -> Token:
        """Raises UserError: there is no output."""
        raise needs_model(self.recorded.name, "An output")

    def shown_positions(self, inputs: Inputs) -> list[int]:
        """None: there is no output."""
        return []

    def _note(self) -> str:
        names = dict.fromkeys(self.recorded.notes)
        about = "This is recorded attention without a model: it cannot read another text, and has no output."
        changed = self.trace.gates or self.trace.interventions
        return " ".join(
            [about, *(["Some heads were changed when it was recorded."] if changed else []), *names]
        )


class RecordedVocabulary:
    """No vocabulary: ids are places, and nothing can be told of them."""

    kind = "none"

    def __init__(self, name: str) -> None:
        self._name = name

    def has(self, role: str) -> bool:
        return False

    @property
    def begin_id(self) -> int:
        raise needs_model(self._name, "A token for the beginning")

    @property
    def end_id(self) -> int:
        raise needs_model(self._name, "A token for the end")

    @property
    def mask_id(self) -> int:
        raise needs_model(self._name, "A token for what is hidden")

    @property
    def entries(self) -> Entries:
        raise needs_model(self._name, "A vocabulary")

    def token(self, id: int) -> Token:
        raise needs_model(self._name, "A vocabulary")

    def decode(self, ids: Sequence[int]) -> str:
        raise needs_model(self._name, "A vocabulary")


class EmptyPass:
    """A pass without an output."""

    def __init__(self, name: str) -> None:
        self._name = name

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        raise needs_model(self._name, "An output")


def shown_text(tokens: Tokens) -> str:
    """The text of some tokens as far as it can be shown and typed; never blank."""
    text = tokens.text.strip() or "·"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def _show(probe: Probe, site: Site, record: SiteRecord) -> None:
    """A record as the call that it was made of, without values and outputs."""
    empty = record.q.new_zeros(1, record.q.shape[0], 0, 0)
    call = Call(q=record.q[None], k=record.k[None], v=empty, rule=record.rule, score=record.score)
    probe.record(site.key, call, lse=record.lse[None], out=empty, is_training=record.proof.is_training)


def open_source(source: str, device: str = "auto") -> Model:
    """A model, or recorded attention in the place of one; raises LoadError and UserError as `load` does."""
    return open_recording(source) if is_trace_file(source) else load(source, device=device)


def open_named(source: str, device: str = "auto") -> Model:
    """As `open_source`, for a source that a file names: nothing is downloaded that no person asked for."""
    name = on_this_machine(source)
    try:
        return open_source(name, device)
    except LoadError as error:
        if not is_download(source):
            raise
        can_be = is_model_id(name)
        raise LoadError(
            f"The file needs the model {name[:100]!r}, which is not on this computer.",
            kind="not-downloaded",
            expected="a model that was opened before: for a file nothing is downloaded",
            action=f"Run attnscope get {name}, which downloads it, and try again."
            if can_be
            else "It is not the name of a model on the Hub.",
        ) from error


def open_recording(path: str | Path) -> Model:
    """A file of recorded attention, or of a trace, as a model that only shows it; raises LoadError."""
    path = Path(path)
    trace = load_trace(path)
    require_heads(trace.sites)
    if any(site.keys != "tokens" for site in trace.sites):
        raise LoadError(
            f"{path} is a trace whose columns are not tokens.",
            kind="not-a-recording",
            expected="a recording, or a trace of tokens on tokens",
            action="Open the model that it was traced with.",
        )
    network = RecordedNetwork(trace, source=str(path.absolute()), sha256=sha256_of(path))
    return Model(network)
