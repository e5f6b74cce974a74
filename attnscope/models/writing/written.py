"""From a text and settings to a generated text with its trace: the text side of the loop over ids."""

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models.inputs import Inputs, check_string
from attnscope.models.network import Network, kl_nats, knowing, log_probabilities
from attnscope.models.writing.writer import BeamSearch, Writer, writer_of
from attnscope.nn import Call, GateBias, MaskRule, RelativeBias, ScoreRule, SlopeBias, SpanBias
from attnscope.records.outputs import (
    WRITING,
    Candidate,
    Comparison,
    Output,
    Prediction,
    WriteSettings,
    WrittenText,
    WrittenToken,
)
from attnscope.records.sites import NOT_WRITTEN, Gates, Site, SiteKey
from attnscope.records.tokens import Token, Tokens
from attnscope.text.vocabulary import decode_begun
from attnscope.trace import GateProbe, Pending, SiteRecord, TextRecord, Trace, TraceProbe, merge_proofs

# Writing one token after another: greedily, by drawing, or with beams. Knows ids, not words.


def draw_probabilities(logits: Tensor, settings: WriteSettings) -> Tensor:
    """Sampling probabilities: float64 on the CPU, sum 1; one-hot if no choice is left."""
    wide = logits.detach().cpu().double()
    if settings.mode != "sample" or settings.temperature == 0.0:
        p = torch.zeros_like(wide)
        p[int(wide.argmax())] = 1.0
        return p
    p = (wide / settings.temperature).softmax(dim=-1)
    if settings.top_k:
        p = keep_top_k(p, settings.top_k)
    if settings.top_p < 1.0:
        p = keep_top_p(p, settings.top_p)
    return p


def keep_top_k(p: Tensor, k: int) -> Tensor:
    """The k most probable tokens, with probabilities renormalised to sum to 1."""
    order = p.argsort(descending=True, stable=True)
    return _only(p, order[: max(k, 1)])


def keep_top_p(p: Tensor, share: float) -> Tensor:
    """The fewest most probable tokens with a total of at least `share`; one at least."""
    order = p.argsort(descending=True, stable=True)
    held = p[order].cumsum(dim=-1)
    n_kept = int((held < share).sum()) + 1
    return _only(p, order[:n_kept])


def draw(p: Tensor, generator: torch.Generator) -> int:
    """Draw one id by inverting the distribution: one number from `generator` a token."""
    cumulative = p.cumsum(dim=-1)
    at = torch.rand((), generator=generator, dtype=torch.float64) * cumulative[-1]
    # right: the first id whose sum lies above; ids with probability 0 are never that.
    found = int(torch.searchsorted(cumulative, at, right=True))
    return min(found, int(p.nonzero()[-1]))


def _only(p: Tensor, kept: Tensor) -> Tensor:
    result = torch.zeros_like(p)
    result[kept] = p[kept]
    return result / result.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One chosen token, and the most probable ones there; see `WrittenToken`.

    `best_chances` are those of the most probable ones; empty where nothing was drawn.
    """

    id: int
    log_probability: float
    chance: float
    best_ids: tuple[int, ...]
    best_log_probabilities: tuple[float, ...]
    best_chances: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The text generated so far; `rows` is the batch row in each of the writer's calls.

    The end token that stopped the text is the last of `choices` and was never read (`has_ended`).
    """

    choices: tuple[Choice, ...]
    rows: tuple[int, ...]
    has_ended: bool = False
    search: BeamSearch | None = None

    @property
    def ids(self) -> list[int]:
        """Generated ids, without the end token."""
        ids = [choice.id for choice in self.choices]
        return ids[:-1] if self.has_ended else ids


def write_ids(
    writer: Writer,
    source: Sequence[int],
    prefix: Sequence[int],
    settings: WriteSettings,
    end_id: int | None,
) -> Generator[Draft, None, Draft]:
    """Generate after `prefix`; yields a draft after each token and returns the last.

    Raises UserError when the prefix leaves no room.
    """
    n_most = min(settings.max_tokens, writer.max_tokens - len(prefix))
    if n_most < 1:
        raise UserError(
            f"The text fills {plural(len(prefix), 'token')}, and the model can read no more.",
            expected=f"fewer than {writer.max_tokens}",
            action="Shorten the text, then generate again.",
        )
    if settings.mode == "beams":
        return (yield from _search(writer, source, prefix, settings, end_id, n_most))
    return (yield from _choose_each(writer, source, prefix, settings, end_id, n_most))


def _choose_each(
    writer: Writer,
    source: Sequence[int],
    prefix: Sequence[int],
    settings: WriteSettings,
    end_id: int | None,
    n_most: int,
) -> Generator[Draft, None, Draft]:
    generator = torch.Generator(device="cpu").manual_seed(settings.seed)
    choices: list[Choice] = []
    logits = writer.begin(source, prefix)[0]
    while len(choices) < n_most:
        choice = _choose(logits, settings, generator)
        choices.append(choice)
        if choice.id == end_id:
            return Draft(choices=tuple(choices), rows=(0,) * len(choices), has_ended=True)
        # The last token is read too: its row belongs to the trace.
        logits = writer.step([choice.id], [0])[0]
        yield Draft(choices=tuple(choices), rows=(0,) * (len(choices) + 1))
    return Draft(choices=tuple(choices), rows=(0,) * (len(choices) + 1))


def _choose(logits: Tensor, settings: WriteSettings, generator: torch.Generator) -> Choice:
    logits = logits.cpu()  # the only wait for the device
    log_p = log_probabilities(logits)
    id, chance, drawn_with = int(logits.argmax()), 1.0, None
    if settings.mode == "sample" and settings.temperature > 0.0:
        drawn_with = draw_probabilities(logits, settings)
        id = draw(drawn_with, generator)
        chance = float(drawn_with[id])
    values, ids = log_p.topk(min(settings.n_alternatives, len(log_p)))
    return Choice(
        id=id,
        log_probability=float(log_p[id]),
        chance=chance,
        best_ids=tuple(ids.tolist()),
        best_log_probabilities=tuple(values.tolist()),
        best_chances=() if drawn_with is None else tuple(drawn_with[ids].tolist()),
    )


def _search(
    writer: Writer,
    source: Sequence[int],
    prefix: Sequence[int],
    settings: WriteSettings,
    end_id: int | None,
    n_most: int,
) -> Generator[Draft, None, Draft]:
    search = BeamSearch(
        n_beams=settings.n_beams, alpha=settings.length_penalty, max_tokens=n_most, end_id=end_id
    )
    steps: list[_Best] = []
    logits = writer.begin(source, prefix)
    while True:
        log_p = log_probabilities(logits).cpu()
        steps.append(_Best.of(log_p, settings.n_alternatives))
        search.advance(log_p)
        yield _draft(search, steps, end_id)
        if search.is_done:
            break
        logits = writer.step(search.live_ids, search.live_rows)
    draft = _draft(search, steps, end_id)
    if draft.has_ended:
        return draft
    # Cut short: the best text goes on alone for one token, whose row belongs to the trace.
    writer.step([draft.choices[-1].id], [draft.rows[-1]])
    return Draft(choices=draft.choices, rows=(*draft.rows, 0), search=search)


@dataclass(frozen=True, slots=True)
class _Best:
    """The most probable tokens of each live text in one step."""

    ids: list[list[int]]
    log_probabilities: list[list[float]]

    @classmethod
    def of(cls, log_p: Tensor, n: int) -> "_Best":
        values, ids = log_p.topk(min(n, log_p.shape[1]), dim=1)
        return cls(ids.tolist(), values.tolist())


def _draft(search: BeamSearch, steps: list[_Best], end_id: int | None) -> Draft:
    node = search.best
    ids, rows = search.ids(node), search.rows(node)
    choices = tuple(
        Choice(
            id=id,
            log_probability=log_probability,
            chance=1.0,
            best_ids=tuple(step.ids[row]),
            best_log_probabilities=tuple(step.log_probabilities[row]),
        )
        for id, log_probability, row, step in zip(
            ids, search.log_probabilities(node), rows, steps, strict=False
        )
    )
    return Draft(choices=choices, rows=tuple(rows), has_ended=ids[-1:] == [end_id], search=search)


# The rows of a growing text, recorded as they are computed and put together afterwards.


class _Part(NamedTuple):
    """The part added by one call; `keys` are None if others hold them. It attended to `n_keys`."""

    q: Tensor
    lse: Tensor
    out: Tensor
    keys: tuple[Tensor, Tensor] | None
    n_keys: int
    rule: MaskRule
    score: ScoreRule


class _Rows:
    """The calls of one site; all but the first add new queries.

    Keys and values that grow are kept as they are while one text alone is read, for what stands in a cache
    stays: those of the first `n_alone` calls are `alone`. Where there are several they change places, and
    those of each call are copied. Keys of a source are those of the first call.
    """

    def __init__(self, *, is_growing: bool) -> None:
        self.parts: list[_Part] = []
        self._is_growing = is_growing
        self._alone = torch.empty(0), torch.empty(0)
        self._n_alone = 0

    def add(self, call: Call, lse: Tensor, out: Tensor) -> None:
        q, k, v, n_before = call.q, call.k, call.v, len(self.parts)
        n_keys, n_new = k.shape[2], q.shape[2]
        keys: tuple[Tensor, Tensor] | None = None
        if self._is_growing and self._n_alone == n_before and len(k) == 1 and self._follows(n_keys, n_new):
            self._alone, self._n_alone = (k, v), n_before + 1
        elif not n_before:
            keys = k, v
        elif self._is_growing:
            keys = k[:, :, -n_new:].clone(), v[:, :, -n_new:].clone()
        self.parts.append(_Part(q, lse, out, keys, n_keys, call.rule, call.score))

    def _follows(self, n_keys: int, n_new: int) -> bool:
        """Whether the keys of a call are those of the earlier calls, and its own."""
        return n_keys == n_new + (self.parts[-1].n_keys if self.parts else 0)

    def keys(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Keys and values of the text that was row `rows[c]` of call c, each as a batch of one."""
        n_alone = min(self._n_alone, len(rows))
        pairs: list[tuple[Tensor, Tensor]] = []
        if n_alone:
            n_keys = self.parts[n_alone - 1].n_keys
            pairs.append((self._alone[0][:, :, :n_keys], self._alone[1][:, :, :n_keys]))
        for part, row in zip(self.parts[n_alone:], rows[n_alone:], strict=False):
            if part.keys is not None:
                pairs.append((part.keys[0][row, None], part.keys[1][row, None]))
        if len(pairs) == 1:
            return pairs[0]
        return torch.cat([k for k, _ in pairs], dim=2), torch.cat([v for _, v in pairs], dim=2)


class RowProbe(GateProbe):
    """Gates head outputs, and records the new rows of every call; see `Writer`."""

    def __init__(self, sites: tuple[Site, ...], gates: Gates) -> None:
        super().__init__(sites, gates)
        self._sites = sites
        self._rows = {site.key: _Rows(is_growing=site.stack == "decoder") for site in sites}

    def wants(self, site: SiteKey) -> bool:
        return site in self._rows

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        self._rows[site].add(call, lse, out)

    def build_records(self, rows: Sequence[int]) -> dict[SiteKey, SiteRecord] | None:
        """The record of the text that was row `rows[c]` of call c; later calls are left out.

        None when the calls do not fit together, for instance because the model kept to a rule that
        cannot be continued; the text can then only be traced in one pass.
        """
        pending = Pending(keep_values=False)
        for site in self._sites:
            # The encoder runs once, whatever is written afterwards.
            chosen = rows[:1] if site.stack == "encoder" else rows
            found = self._rows[site.key]
            call = _joined(site, found, chosen)
            if call is None:
                return None
            lse, out = (_column(found.parts, chosen, name) for name in ("lse", "out"))
            pending.add(site.key, call, lse=lse, out=out, is_training=False)
        records = pending.finish()
        return records if merge_proofs(record.proof for record in records.values()).is_good else None


def _joined(site: Site, found: _Rows, rows: Sequence[int]) -> Call | None:
    """The one equivalent call with all rows; None if there is none."""
    used = found.parts[: len(rows)]
    if not used or len(used) < len(rows):
        return None
    rule, score = _joined_rule(site, used), _joined_score(used)
    if rule is None or score is None:
        return None
    k, v = found.keys(rows)
    return Call(q=_column(used, rows, "q"), k=k, v=v, rule=rule, score=score)


def _column(parts: Sequence[_Part], rows: Sequence[int], name: str) -> Tensor:
    """The parts of one row kept by all calls, stacked, as a batch of one."""
    kept = [getattr(part, name) for part in parts[: len(rows)]]
    return torch.cat(
        [one if len(one) == 1 else one[row, None] for one, row in zip(kept, rows, strict=True)], 2
    )


def _joined_rule(site: Site, parts: Sequence[_Part]) -> MaskRule | None:
    first = parts[0].rule
    if len(parts) == 1:
        return first
    if any(part.rule.pattern is not None or part.rule.removed is not None for part in parts):
        return None
    if site.stack != "decoder":
        return first
    # Whatever each call's rule was: no row has seen a key that was written after it.
    return replace(first, is_causal=True, key_valid=None)


def _joined_score(parts: Sequence[_Part]) -> ScoreRule | None:
    first, last = parts[0].score, parts[-1].score
    if len(parts) == 1 or first.bias is None or isinstance(first.bias, SlopeBias | SpanBias | GateBias):
        return first
    if not isinstance(last.bias, RelativeBias) or parts[-1].q.shape[2] != 1:
        return None
    # The last row knows the bias of every distance back; those ahead are never looked at.
    back = last.bias.values  # [n_heads, n_keys]
    ahead = back.new_zeros(len(back), back.shape[1] - 1)
    return replace(first, bias=RelativeBias(values=torch.cat((back, ahead), dim=1)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Written:
    """The generated text, and every head on the whole text.

    The trace holds the rows as they were computed while writing (`is_from_rows`); where the model cannot
    keep to that, those of one more pass. It has no logits: `text.tokens` say what there was to choose.
    """

    text: WrittenText
    inputs: Inputs
    trace: Trace
    is_from_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SoFar:
    """The state after one more token: the tokens, and the whole text on request.

    With beams it is the best text so far, which may change from one token to the next.
    """

    tokens: tuple[WrittenToken, ...]
    whole: Callable[[], str]


def check_writes(network: Network) -> None:
    """Raise UserError for a network that generates no text."""
    if network.output_kind not in WRITING:
        raise UserError(
            "This model does not generate text.",
            expected="a causal or a translation model",
            action=what_else(network),
        )


def what_else(network: Network) -> str:
    """Alternatives for the user if a model cannot do what was asked."""
    match network.output_kind:
        case "next-token" | "translation":
            return "Generate text with it: attnscope generate, or model.generate."
        case "nothing":
            return "It has no output layer: look at its attention, attnscope figure or model.trace."
        case _:
            return "Ask for its predictions: attnscope predict, or model.predict."


def write_text(
    network: Network, text: str, settings: WriteSettings, gates: Gates, *, prefix: str = ""
) -> Generator[SoFar, None, Written]:
    """Let a network continue `text`, or translate it (after `prefix`).

    A generator: yields what stands after each token and returns the whole. Between two yields lies one
    step of the model; closing it ends the writing.
    Raises UserError for settings that cannot be, and for a network that generates no text.
    """
    settings.check()
    check_writes(network)
    check_string(text, "the text")
    check_string(prefix, "the prefix")
    is_translation = network.form == "encoder-decoder"
    inputs = network.encode(text, prefix if is_translation else None)
    network = knowing(network, inputs)
    probe = RowProbe(network.sites, gates)
    writer = writer_of(network, probe)
    if not writer.is_incremental:
        writer = writer_of(network, GateProbe(network.sites, gates))
    tokens = _TokensSoFar(network, len(inputs.target or inputs.source) - 1)
    draft, seconds = yield from _told(network, writer, inputs, settings, tokens)
    whole = _whole_inputs(network, inputs, draft.ids)
    records = probe.build_records(draft.rows) if writer.is_incremental else None
    is_from_rows = records is not None
    if records is None:
        full = TraceProbe(network.sites, gates)
        network.run(whole, full)
        records = full.records
    trace = Trace(
        TextRecord(
            sites=network.sites,
            gates=gates,
            source=whole.source,
            target=_read_to_write(network, whole.target, draft),
            records=records,
        )
    )
    written = _written_text(network, whole, draft, settings, tokens)
    written = replace(written, tokens_per_s=len(draft.choices) / max(seconds, 1e-9))
    return Written(text=written, inputs=whole, trace=trace, is_from_rows=is_from_rows)


def _read_to_write(network: Network, target: Tokens | None, draft: Draft) -> Tokens | None:
    """The target with its generated end token, if any."""
    after = network.vocabulary.token(draft.choices[-1].id) if draft.has_ended else NOT_WRITTEN
    return None if target is None else replace(target, following=after)


def _told(
    network: Network, writer: Writer, inputs: Inputs, settings: WriteSettings, tokens: "_TokensSoFar"
) -> Generator[SoFar, None, tuple[Draft, float]]:
    """The loop over ids with its drafts as text; returns the last draft, and the total time in seconds."""
    end_id = network.vocabulary.end_id if network.vocabulary.has("end") else None
    source = () if inputs.target is None else inputs.source.ids
    prefix = (inputs.target or inputs.source).ids
    steps = write_ids(writer, source, prefix, settings, end_id)
    seconds = 0.0
    while True:
        begin_s = time.perf_counter()
        try:
            draft = next(steps)
        except StopIteration as stop:
            last: Draft = stop.value
            return last, seconds + time.perf_counter() - begin_s
        seconds += time.perf_counter() - begin_s
        yield SoFar(tokens=tokens.of(draft), whole=partial(_whole_text, network, inputs, draft.ids))


class _TokensSoFar:
    """Drafts as tokens; the common beginning of successive drafts is converted once."""

    def __init__(self, network: Network, first_position: int) -> None:
        self._network, self._first = network, first_position
        self._choices: list[Choice] = []
        self._tokens: list[WrittenToken] = []

    def of(self, draft: Draft) -> tuple[WrittenToken, ...]:
        n_same = self._n_same(draft.choices)
        del self._choices[n_same:], self._tokens[n_same:]
        for position, choice in enumerate(draft.choices[n_same:], start=self._first + n_same):
            self._choices.append(choice)
            self._tokens.append(_written_token(self._network, position, choice))
        return tuple(self._tokens)

    def _n_same(self, choices: Sequence[Choice]) -> int:
        n_known = len(self._choices)
        if 0 < n_known <= len(choices) and choices[n_known - 1] is self._choices[-1]:
            return n_known  # the very same choice stands after the same ones
        n_same = 0
        for known, choice in zip(self._choices, choices, strict=False):
            if known != choice:
                break
            n_same += 1
        return n_same


def _written_token(network: Network, position: int, choice: Choice) -> WrittenToken:
    token = network.vocabulary.token
    return WrittenToken(
        token=token(choice.id),
        position=position,
        probability=math.exp(choice.log_probability),
        chance=choice.chance,
        alternatives=tuple(
            Candidate(token=token(id), probability=math.exp(log_p), chance=chance)
            for id, log_p, chance in zip(
                choice.best_ids,
                choice.best_log_probabilities,
                choice.best_chances or (None,) * len(choice.best_ids),
                strict=True,
            )
        ),
    )


def _written_text(
    network: Network, whole: Inputs, draft: Draft, settings: WriteSettings, tokens: _TokensSoFar
) -> WrittenText:
    final = whole.source if whole.target is None else whole.target
    decode = network.vocabulary.decode
    return WrittenText(
        settings=settings,
        text=decode(draft.ids) if draft.has_ended else decode_begun(decode, draft.ids),
        whole=final.text,
        source=whole.source,
        target=whole.target,
        tokens=tokens.of(draft),
        has_ended=draft.has_ended,
        log_probability=math.fsum(choice.log_probability for choice in draft.choices),
        tree=None if draft.search is None else draft.search.tree(network.vocabulary.token),
    )


def _whole_inputs(network: Network, inputs: Inputs, written: Sequence[int]) -> Inputs:
    """Prompt and generated text as the model read them, id for id."""
    if inputs.target is not None:
        return network.own_target(inputs, [*_own_ids(network, inputs), *written])
    source = inputs.source
    ids = (*source.ids, *written)
    text = _continued(network, source, written)
    read = network.encode(text).source
    if read.ids != ids:
        # The tokenizer would cut this text otherwise; what the model wrote counts.
        new = tuple(network.vocabulary.token(id) for id in written)
        read = Tokens(text=text, tokens=(*source.tokens, *new))
    return Inputs(source=read)


def _whole_text(network: Network, inputs: Inputs, written: Sequence[int]) -> str:
    if inputs.target is None:
        return _continued(network, inputs.source, written)
    return network.vocabulary.decode([*_own_ids(network, inputs), *written])


def _own_ids(network: Network, inputs: Inputs) -> tuple[int, ...]:
    """The target without the tokens before every target."""
    empty = network.own_target(inputs, ()).target
    return () if inputs.target is None else inputs.target.ids[len(empty or ()) :]


def _continued(network: Network, source: Tokens, written: Sequence[int]) -> str:
    """The prompt followed by the generated text, spaced as the tokenizer does it."""
    decode = network.vocabulary.decode
    before, after = decode(source.ids), decode([*source.ids, *written])
    added = after[len(before) :] if after.startswith(before) else decode(written)
    if source.text[-1:].isspace() and added[:1].isspace():
        added = added[1:]
    return source.text + added


def compare_written(network: Network, written: Written, *, top: int = 8) -> Comparison:
    """One prediction for each generated token.

    Without gates nothing is computed: the writing itself has said it all. With gates it takes one pass.
    """
    text, gates, network = written.text, written.trace.gates, knowing(network, written.inputs)
    after = Output(
        kind=network.output_kind,
        predictions=tuple(
            Prediction(
                position=token.position,
                context=_context(written.inputs, token.position),
                candidates=token.alternatives[:top],
            )
            for token in text.tokens
        ),
        generated="" if gates else text.text,
    )
    if not gates:
        return Comparison(before=after, after=after, kl_nats=(0.0,) * len(text.tokens))
    positions = [token.position for token in text.tokens]
    probe = GateProbe(network.sites, gates, is_paired=True)
    done = network.run(written.inputs, probe, n_copies=2)
    log_p = [log_probabilities(done.logits(positions, copy=copy)) for copy in (0, -1)]
    values, ids = log_p[0].topk(min(top, log_p[0].shape[1]))
    rows = zip(after.predictions, values.exp().tolist(), ids.tolist(), strict=True)
    before = Output(
        kind=network.output_kind,
        predictions=tuple(
            Prediction(
                position=prediction.position,
                context=prediction.context,
                candidates=tuple(
                    Candidate(token=network.answer(id), probability=probability)
                    for id, probability in zip(row_ids, row_values, strict=True)
                ),
            )
            for prediction, row_values, row_ids in rows
        ),
    )
    return Comparison(before=before, after=after, kl_nats=kl_nats(log_p[0], log_p[1]))


def _context(inputs: Inputs, position: int) -> str:
    token: Token = (inputs.target or inputs.source).tokens[position]
    return "at the start" if token.is_special else f'after "{token.piece}"'
