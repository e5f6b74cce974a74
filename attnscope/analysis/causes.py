"""The part of a model that made an output: the prediction of each layer if it were the last, and the effect
of patching. The contribution of each part is in `attribution.py`.

The logit lens: softmax(W_U · norm(stream_l)), what each layer would say if it were the last.

nostalgebraist 2020. The stream after every layer goes through the model's own last norm and head, so that
the last layer says exactly what the model says; without the norm a pre-norm stream is not what the
vocabulary was trained on. Models of Hugging Face's library are read as `huggingface/head.py` says.

Activation patching: put a piece of one run into another and see how much of the output comes back.

| symbol | meaning                                                               |
|--------|-----------------------------------------------------------------------|
| LD     | logit(answer) − logit(other) at one position                          |
| value  | (LD_patched − LD_corrupt) / (LD_clean − LD_corrupt)                   |

Meng et al. 2022 (causal tracing), Wang et al. 2022 (section 3, equation on page 7). Usually pieces of the
clean run go into the corrupt one; the other way round shows what breaks it. A run patched with its own
pieces keeps its value: clean 1, corrupt 0. The `stream` map patches what enters each layer at one position,
the `head` map a head's output at every position, before the projection. Both texts have as many tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.answers import reads_classes, told_position
from attnscope.analysis.attribution import choose_answers
from attnscope.analysis.batches import slices_of
from attnscope.analysis.influence import check_position
from attnscope.analysis.model_adapter import (
    OwnSubject,
    TensorGates,
    gate_tensors,
    no_vocabulary,
    own_subject,
    predicting_stack,
    require_answers,
    subject_of,
)
from attnscope.analysis.watched_pass import batch_of, predicting_tokens, watched_streams
from attnscope.errors import UserError
from attnscope.models import Inputs, Model, best_ids, log_probabilities
from attnscope.models.huggingface.anatomy import anatomy_of
from attnscope.models.huggingface.head import LayerStreams, read_layer_streams
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.passes import CallPlace, changed_reads
from attnscope.nn.attention import Probe
from attnscope.records.causes import LensTable, PatchKind, PatchMap, RunName
from attnscope.records.importance import PartsDone
from attnscope.records.interventions import Interventions
from attnscope.records.models import Form
from attnscope.records.outputs import TELLING_TOKENS, Candidate
from attnscope.records.sites import NO_GATES, Gates, Site, SiteKey, Stack, require_heads
from attnscope.records.tokens import Token
from attnscope.trace.record import GateProbe

_BLOCK_LOGITS = 4_000_000


def logit_lens(
    model: Model,
    text: str,
    target: str | None = None,
    *,
    gates: Gates = NO_GATES,
    interventions: Interventions = (),
    positions: Sequence[int] | slice = slice(None),
    top: int = 5,
) -> LensTable:
    """Predictions read off each layer of the predicting stack, with these changes.

    Raises UserError for a model without such a stream, or whose last norm and head are not known.
    """
    inputs = model.encode(text, target)
    tokens, stack = predicting_tokens(inputs), predicting_stack(model.network.form)
    n_tokens = len(tokens)
    chosen = range(n_tokens)[positions] if isinstance(positions, slice) else positions
    wanted = tuple(check_position(position, n_tokens) for position in chosen)
    network = model.network
    if isinstance(network, HuggingFaceNetwork):
        levels = _foreign_levels(model, network, inputs, gates, interventions)
    else:
        levels = _own_levels(model, inputs, stack, gates, interventions)
    with torch.no_grad():
        columns = _read_levels(levels, [stream[list(wanted)] for stream in levels.streams], top)
    return _table(model, stack, wanted, tuple(tokens[p] for p in wanted), columns)


def layer_logits(subject: OwnSubject, stream: Tensor) -> Tensor:
    """Logits read off a stream, float32 [..., vocab_size]."""
    return subject.logits(subject.finish(stream)).float()


def _own_levels(
    model: Model, inputs: Inputs, stack: Stack, gates: Gates, interventions: Interventions
) -> LayerStreams:
    subject = own_subject(model)
    probe = TensorGates(gate_tensors(subject, gates) if gates else {}, model.edits(interventions))
    with subject.studying(), watched_streams(subject, stack) as streams:
        subject.hidden(batch_of(inputs, model.device), probe)

    def logits(stream: Tensor) -> Tensor:
        with subject.studying():
            return layer_logits(subject, stream)

    return LayerStreams(tuple(stream[0] for stream in streams), logits)


def _foreign_levels(
    model: Model, network: HuggingFaceNetwork, inputs: Inputs, gates: Gates, interventions: Interventions
) -> LayerStreams:
    if network.output_kind not in TELLING_TOKENS or network.info.reads != "text":
        raise no_vocabulary(model)
    tensors = gate_tensors(subject_of(model), gates) if gates else {}
    probe = TensorGates(tensors, model.edits(interventions))
    with torch.no_grad(), network.attached.probing(probe):
        return read_layer_streams(network.module, network.arguments(inputs))


def _read_levels(levels: LayerStreams, streams: Sequence[Tensor], top: int) -> list[list[tuple[Tensor, ...]]]:
    """For each block of positions and each level: top ids, top log p, p, rank, KL, entropy."""
    first = levels.logits(streams[-1][:1])
    size = max(1, _BLOCK_LOGITS // first.shape[-1])
    blocks = []
    for part in slices_of(len(streams[-1]), size):
        final = log_probabilities(levels.logits(streams[-1][part]))
        best = final.argmax(dim=-1, keepdim=True)
        blocks.append(
            [
                _read_level(log_probabilities(levels.logits(stream[part])), final, best, top)
                for stream in streams
            ]
        )
    return blocks


def _read_level(log_p: Tensor, final: Tensor, best: Tensor, top: int) -> tuple[Tensor, ...]:
    own = log_p.gather(-1, best)  # [n, 1]
    values, ids = log_p.topk(min(top, log_p.shape[-1]), dim=-1)
    p = final.exp()
    kl = torch.where(p > 0, p * (final - log_p), 0.0).sum(dim=-1).clamp(min=0.0)
    entropy = -torch.where(log_p > -torch.inf, log_p.exp() * log_p, 0.0).sum(dim=-1)
    return ids, values.exp(), own.exp()[:, 0], (log_p > own).sum(dim=-1), kl, entropy


def _table(
    model: Model,
    stack: str,
    positions: tuple[int, ...],
    tokens: tuple[Token, ...],
    blocks: Sequence[Sequence[tuple[Tensor, ...]]],
) -> LensTable:
    n_levels = len(blocks[0])

    def gathered(part: int, level: int) -> Tensor:
        return torch.cat([block[level][part] for block in blocks]).cpu()

    def rows(part: int) -> NDArray[np.float32]:
        return np.stack([gathered(part, level).float().numpy() for level in range(n_levels)])

    answer = model.network.answer
    return LensTable(
        stack=stack,  # type: ignore[arg-type]
        levels=("input", *(f"layer {layer}" for layer in range(n_levels - 1))),
        positions=positions,
        tokens=tokens,
        candidates=tuple(
            _candidates(gathered(0, level), gathered(1, level), answer) for level in range(n_levels)
        ),
        probability=rows(2),
        rank=rows(3).astype(np.int32),
        kl_nats=rows(4),
        entropy=rows(5),
    )


def _candidates(
    ids: Tensor, values: Tensor, answer: Callable[[int], Token]
) -> tuple[tuple[Candidate, ...], ...]:
    return tuple(
        tuple(Candidate(token=answer(id), probability=p) for id, p in zip(row_ids, row_values, strict=True))
        for row_ids, row_values in zip(ids.tolist(), values.tolist(), strict=True)
    )


# A model as patching sees it: where its layers and its heads are read, and what it says.


class PatchedSubject(Protocol):
    """The operations that patching needs from a model."""

    form: Form
    sites: tuple[Site, ...]

    def layers(self, stack: Stack) -> tuple[CallPlace, ...]:
        """Modules at which each layer of `encoder` or `decoder` reads the stream."""

    def projection_place(self, site: SiteKey) -> CallPlace:
        """Module at which the heads of a site are read."""

    def say(self, inputs: Inputs, position: int, probe: Probe | None = None, *, n_copies: int = 1) -> Tensor:
        """The logits at one position of some copies of a text, float32 [n_copies, n_answers]."""


class OwnPatched:
    """A Transformer of this program."""

    def __init__(self, subject: OwnSubject) -> None:
        self.form, self.sites, self._subject = subject.form, subject.sites, subject

    def layers(self, stack: Stack) -> tuple[CallPlace, ...]:
        return tuple(CallPlace(module=block) for block in self._subject.blocks(stack))

    def projection_place(self, site: SiteKey) -> CallPlace:
        return CallPlace(module=self._subject.projection(site))

    def say(self, inputs: Inputs, position: int, probe: Probe | None = None, *, n_copies: int = 1) -> Tensor:
        """Only the asked position goes through the vocabulary."""
        subject = self._subject
        with subject.studying():
            hidden = subject.hidden(batch_of(inputs, subject.device, n_copies), probe)
            return subject.logits(hidden[:, position]).float()


class ForeignPatched:
    """A model of Hugging Face's library."""

    def __init__(self, network: HuggingFaceNetwork) -> None:
        self.form, self.sites = network.form, network.sites
        self._network, self._anatomy = network, anatomy_of(network)

    def layers(self, stack: Stack) -> tuple[CallPlace, ...]:
        return self._anatomy.layers(stack)

    def projection_place(self, site: SiteKey) -> CallPlace:
        """The product that reads the heads."""
        return self._anatomy.projections[site]

    def say(self, inputs: Inputs, position: int, probe: Probe | None = None, *, n_copies: int = 1) -> Tensor:
        """Only the asked position goes through the head, where the head can be taken off."""
        done = self._network.run(inputs, probe, n_copies=n_copies)
        return torch.cat([done.logits([position], copy) for copy in range(n_copies)])


def patched_subject(model: Model) -> PatchedSubject:
    """The subject behind a model that predicts tokens; raises UserError for others."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork):
        require_answers(model)
        return ForeignPatched(network)
    return OwnPatched(own_subject(model))


_COPIES, _BLOCK_TOKENS = 32, 4096
Texts = tuple[str, str | None]
"""A text and its target, where the model reads one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patching:
    """The pieces of the donor's run that are put into the receiver's, and where the effect is read.

    `stack` chooses whose stream is patched. None takes that of the stack which reads the texts, of a
    translator the encoder: causal tracing restores states at its tokens (Meng et al. 2022, section 2).
    `answer` None is what the clean run says at `position`, `other` None what the corrupt one says.
    """

    kind: PatchKind = "stream"
    donor: RunName = "clean"
    receiver: RunName = "corrupt"
    stack: Stack | None = None
    position: int = -1
    answer: int | None = None
    other: int | None = None


def patch_map(
    model: Model, clean: Texts, corrupt: Texts, wish: Patching, gates: Gates = NO_GATES
) -> Iterator[PartsDone | PatchMap]:
    """Yield progress after each pass, then the map of layers and positions, or layers and heads.

    `gates` hold in every run; they act on a head's output before it is read or patched. Raises UserError when
    the texts differ in length or the patch can change nothing because both runs say the same.
    """
    subject, kind = patched_subject(model), wish.kind
    if kind == "head":
        require_heads(model.sites)
    inputs = {name: model.encode(*texts) for name, texts in (("clean", clean), ("corrupt", corrupt))}
    _check_lengths(inputs["clean"], inputs["corrupt"])
    position = check_position(wish.position, len(predicting_tokens(inputs["clean"])))
    if reads_classes(model):
        told_position(model, inputs["clean"], position)
    stack = wish.stack or ("encoder" if subject.form == "encoder-decoder" else predicting_stack(subject.form))
    probe = GateProbe(model.sites, gates) if gates else None
    runs = {name: _read(subject, one, stack, position, probe) for name, one in inputs.items()}
    answer = int(best_ids(runs["clean"].logits)) if wish.answer is None else wish.answer
    answer, other = choose_answers(runs["corrupt"].logits, answer, wish.other)
    high, low = (float(runs[n].logits[answer] - runs[n].logits[other]) for n in ("clean", "corrupt"))
    if high == low:
        raise UserError(
            f"Both runs prefer the answer by {high:.3f} logits.",
            expected="two texts between which the output differs",
            action="Choose other texts or another answer.",
        )
    receiver = inputs[wish.receiver]
    plan = _plan(subject, kind, stack, receiver, runs[wish.donor])
    found = np.full((len(plan.rows), len(plan.columns)), np.nan)
    cells = [(row, column) for row, width in enumerate(plan.widths) for column in range(width)]
    n_copies = max(1, min(_COPIES, _BLOCK_TOKENS // max(1, len(receiver.source))))
    for part in _row_chunks(cells, n_copies):
        differences = _patched(subject, plan, receiver, part, position, answer, other, probe)
        for (row, column), difference in zip(part, differences, strict=True):
            found[row, column] = (difference - low) / (high - low)
        yield PartsDone(n_done=cells.index(part[-1]) + 1, n_total=len(cells), about=f"patching {kind}s")
    token = model.network.answer
    yield PatchMap(
        kind=kind,
        donor=wish.donor,
        receiver=wish.receiver,
        rows=plan.rows,
        columns=plan.columns,
        patched=found,
        answer=token(answer),
        other=token(other),
        clean_difference=high,
        corrupt_difference=low,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """Values recorded in one run of a text, reused for the texts of a batch of one."""

    logits: Tensor
    streams: list[Tensor]
    joined: list[Tensor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Plan:
    """The rows of a map: the module that reads a row's pieces, and the donor's pieces themselves.

    A piece is a position of `donated` (stream) or a stretch of its last axis (head); `widths` says how many
    pieces each row has.
    """

    kind: PatchKind
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    widths: tuple[int, ...]
    places: tuple[CallPlace, ...]
    donated: tuple[Tensor, ...]

    def patch(self, row: int, columns: Sequence[int], x: Tensor) -> Tensor:
        """`x` [n_copies, n_tokens, width] with one piece of each copy from the donor."""
        x, given = x.clone(), self.donated[row].to(x)
        size = 1 if self.kind == "stream" else x.shape[2] // self.widths[row]
        for copy, column in enumerate(columns):
            if self.kind == "stream":
                x[copy, column] = given[0, column]
            else:
                part = slice(column * size, (column + 1) * size)
                x[copy, :, part] = given[0, :, part]
        return x


def _plan(subject: PatchedSubject, kind: PatchKind, stack: Stack, receiver: Inputs, donor: _Run) -> _Plan:
    if kind == "stream":
        is_source = stack == "encoder" or receiver.target is None
        tokens = receiver.source.tokens if is_source or receiver.target is None else receiver.target.tokens
        places = subject.layers(stack)
        return _Plan(
            kind=kind,
            rows=tuple(f"{stack} {layer}" for layer in range(len(places))),
            columns=tuple(token.piece for token in tokens),
            widths=(len(tokens),) * len(places),
            places=places,
            donated=tuple(donor.streams),
        )
    sites = subject.sites
    return _Plan(
        kind=kind,
        rows=tuple(f"{site.stack} {site.layer}" for site in sites),
        columns=tuple(f"H{head}" for head in range(max(site.n_heads for site in sites))),
        widths=tuple(site.n_heads for site in sites),
        places=tuple(subject.projection_place(site.key) for site in sites),
        donated=tuple(donor.joined),
    )


def _read(subject: PatchedSubject, inputs: Inputs, stack: Stack, position: int, probe: Probe | None) -> _Run:
    layers = subject.layers(stack)
    places = (*layers, *(subject.projection_place(site.key) for site in subject.sites))
    seen: dict[int, Tensor] = {}

    def keep(place: int, x: Tensor) -> Tensor:
        seen[place] = x.detach()
        return x

    with changed_reads([(place, partial(keep, i)) for i, place in enumerate(places)]):
        logits = subject.say(inputs, position, probe)[0]
    kept = [seen[i] for i in range(len(places))]
    return _Run(logits=logits, streams=kept[: len(layers)], joined=kept[len(layers) :])


def _patched(
    subject: PatchedSubject,
    plan: _Plan,
    receiver: Inputs,
    cells: Sequence[tuple[int, int]],
    position: int,
    answer: int,
    other: int,
    probe: Probe | None,
) -> NDArray[np.float64]:
    """Logit difference of each patched copy; all cells are of one row."""
    row, columns = cells[0][0], [column for _, column in cells]
    with changed_reads([(plan.places[row], lambda x: plan.patch(row, columns, x))]):
        logits = subject.say(receiver, position, probe, n_copies=len(cells))
    return (logits[:, answer] - logits[:, other]).cpu().double().numpy()


def _row_chunks(cells: Sequence[tuple[int, int]], n_copies: int) -> Iterator[Sequence[tuple[int, int]]]:
    """The cells of each row, in groups no larger than a batch."""
    for row in dict.fromkeys(row for row, _ in cells):
        of_row = [cell for cell in cells if cell[0] == row]
        for part in slices_of(len(of_row), n_copies):
            yield of_row[part]


def _check_lengths(clean: Inputs, corrupt: Inputs) -> None:
    for first, second in ((clean.source, corrupt.source), (clean.target, corrupt.target)):
        n_first, n_second = len(first or ()), len(second or ())
        if n_first != n_second:
            raise UserError(
                f"The clean text has {n_first} tokens, the corrupt one {n_second}.",
                expected="as many in both, so that each has its counterpart",
                action="Exchange words for others that are one token as well.",
            )
