"""From a text and settings to a written text with its trace: words around the loop of ids."""

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from attnscope.errors import UserError
from attnscope.models.inputs import Inputs
from attnscope.models.network import Network
from attnscope.models.outputs import kl_nats, log_probabilities
from attnscope.models.writing.loop import Choice, Draft, write_ids
from attnscope.models.writing.rows import RowProbe
from attnscope.models.writing.writer import Writer, writer_of
from attnscope.records.axes import NOT_WRITTEN
from attnscope.records.generation import WriteSettings, WrittenText, WrittenToken
from attnscope.records.outputs import Candidate, Comparison, Output, Prediction
from attnscope.records.sites import Gates
from attnscope.records.tokens import Token, Tokens
from attnscope.trace.probe import GateProbe, TraceProbe
from attnscope.trace.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Written:
    """What a model wrote, and every head on the whole of it.

    The trace holds the rows as they were computed while writing (`is_from_rows`); where the model cannot
    keep to that, those of one more pass. It has no logits: `text.tokens` say what there was to choose.
    """

    text: WrittenText
    inputs: Inputs
    trace: Trace
    is_from_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SoFar:
    """What stands after one more token: the tokens, and the whole text when it is asked for.

    With beams it is the best text so far, which may change from one token to the next.
    """

    tokens: tuple[WrittenToken, ...]
    whole: Callable[[], str]


def check_writes(network: Network) -> None:
    """Raise UserError for a network that writes no text."""
    if network.output_kind not in ("next-token", "translation"):
        raise UserError(
            "This model does not write text.",
            expected="a causal or a translation model",
            action=what_else(network),
        )


def what_else(network: Network) -> str:
    """What a person can ask of a model that does not do what they asked."""
    match network.output_kind:
        case "next-token" | "translation":
            return "Let it write: attnscope generate, or model.generate."
        case "nothing":
            return "It has no output layer: look at its attention, attnscope figure or model.trace."
        case _:
            return "Ask for its predictions: attnscope predict, or model.predict."


def write_text(
    network: Network, text: str, settings: WriteSettings, gates: Gates, *, prefix: str = ""
) -> Generator[SoFar, None, Written]:
    """Let a network write after `text`, or translate it (after `prefix`).

    A generator: yields what stands after each token and returns the whole. Between two yields lies one
    step of the model; closing it ends the writing.
    Raises UserError for settings that cannot be, and for a network that writes no text.
    """
    settings.check()
    check_writes(network)
    is_translation = network.form == "encoder-decoder"
    inputs = network.encode(text, prefix if is_translation else None)
    probe = RowProbe(network.sites, gates)
    writer = writer_of(network, probe)
    if not writer.is_incremental:
        writer = writer_of(network, GateProbe(network.sites, gates))
    draft, seconds = yield from _told(network, writer, inputs, settings)
    whole = _whole_inputs(network, inputs, draft.ids)
    records = probe.build_records(draft.rows) if writer.is_incremental else None
    is_from_rows = records is not None
    if records is None:
        full = TraceProbe(network.sites, gates)
        network.run(whole, full)
        records = full.records
    trace = Trace(
        sites=network.sites,
        gates=gates,
        source=whole.source,
        target=_read_to_write(network, whole.target, draft),
        records=records,
        logits=None,
    )
    written = _written_text(network, inputs, whole, draft, settings)
    written = replace(written, tokens_per_s=len(draft.choices) / max(seconds, 1e-9))
    return Written(text=written, inputs=whole, trace=trace, is_from_rows=is_from_rows)


def _read_to_write(network: Network, target: Tokens | None, draft: Draft) -> Tokens | None:
    """The target with the end that was written after it, where one was."""
    after = network.vocabulary.token(draft.choices[-1].id) if draft.has_ended else NOT_WRITTEN
    return None if target is None else replace(target, following=after)


def _told(
    network: Network, writer: Writer, inputs: Inputs, settings: WriteSettings
) -> Generator[SoFar, None, tuple[Draft, float]]:
    """The loop of ids with its drafts told in words; the last draft, and the seconds that all steps took."""
    end_id = network.vocabulary.end_id if network.vocabulary.has("end") else None
    source = () if inputs.target is None else inputs.source.ids
    prefix = (inputs.target or inputs.source).ids
    steps = write_ids(writer, source, prefix, settings, end_id)
    tokens = _TokensSoFar(network, len(prefix) - 1)
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
    """Drafts as tokens; what two drafts in a row begin with alike is made once."""

    def __init__(self, network: Network, first_position: int) -> None:
        self._network, self._first = network, first_position
        self._known: list[tuple[Choice, WrittenToken]] = []

    def of(self, draft: Draft) -> tuple[WrittenToken, ...]:
        """The tokens of a draft."""
        n_same = 0
        for (known, _), choice in zip(self._known, draft.choices, strict=False):
            if known is not choice and known != choice:
                break
            n_same += 1
        del self._known[n_same:]
        for position, choice in enumerate(draft.choices[n_same:], start=self._first + n_same):
            self._known.append((choice, _written_token(self._network, position, choice)))
        return tuple(token for _, token in self._known)


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
                choice.best_ids, choice.best_log_probabilities, _chances(choice), strict=True
            )
        ),
    )


def _chances(choice: Choice) -> Sequence[float | None]:
    return choice.best_chances or (None,) * len(choice.best_ids)


def _written_text(
    network: Network, inputs: Inputs, whole: Inputs, draft: Draft, settings: WriteSettings
) -> WrittenText:
    own = inputs.source if inputs.target is None else inputs.target
    final = whole.source if whole.target is None else whole.target
    return WrittenText(
        settings=settings,
        text=network.vocabulary.decode(draft.ids),
        whole=final.text,
        source=whole.source,
        target=whole.target,
        tokens=_TokensSoFar(network, len(own) - 1).of(draft),
        has_ended=draft.has_ended,
        log_probability=math.fsum(choice.log_probability for choice in draft.choices),
        tree=None if draft.search is None else draft.search.tree(network.vocabulary.token),
    )


def _whole_inputs(network: Network, inputs: Inputs, written: Sequence[int]) -> Inputs:
    """Prompt and written text as the model read them, id for id."""
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
    """The target without what stands before every target."""
    empty = network.own_target(inputs, ()).target
    return () if inputs.target is None else inputs.target.ids[len(empty or ()) :]


def _continued(network: Network, source: Tokens, written: Sequence[int]) -> str:
    """The prompt with what was written after it, spaced as the tokenizer spaces it."""
    decode = network.vocabulary.decode
    before, after = decode(source.ids), decode([*source.ids, *written])
    added = after[len(before) :] if after.startswith(before) else decode(written)
    if source.text[-1:].isspace() and added[:1].isspace():
        added = added[1:]
    return source.text + added


def compare_written(network: Network, written: Written, *, top: int = 8) -> Comparison:
    """One prediction for each written token.

    Without gates nothing is computed: the writing itself has said it all. With gates it takes one pass.
    """
    text, gates = written.text, written.trace.gates
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
