"""The interface behind a `Model`: any architecture, in terms of tokens and probes.

| symbol | meaning                                        | shape                    |
|--------|------------------------------------------------|--------------------------|
| logits | one number per piece (or label) at a position  | [n_positions, n_answers] |

Every network sends all its attention through `nn.attention.attend` with the probe it is given.

Text is written greedily in as few passes as possible: each reads a guess at the coming tokens and keeps those
that the model would have written itself, so the result is exactly that of one token at a time (the
verification of Leviathan et al. 2023 with a greedy choice). The first guess is the caller's: one that was
right, such as the text before a head was gated, costs one pass. Later ones continue what was written before
as it went on the last time (prompt lookup, Saxena 2023), or are the answers of the pass before (Jacobi
decoding, Santilli et al. 2023).

Texts with hidden spans, as people type and read them (Raffel et al. 2020, figure 2).

typed     Thank you <mask> me to your party <mask> week      or with <extra_0>, <extra_1>, …
read      Thank you <extra_0> me to your party <extra_1> week </s>
written   <extra_0> for inviting <extra_1> last
shown     Thank you for inviting me to your party last week

From logits to what a model says, and how far two outputs lie apart:

| symbol | meaning                                | shape                    |
|--------|----------------------------------------|--------------------------|
| logits | one number per piece at each position  | [n_positions, vocab_size]|
| log_p  | log-softmax of the logits              | [n_positions, vocab_size]|
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from attnscope.errors import NotFiniteError, UserError
from attnscope.models.inputs import Inputs
from attnscope.nn import Probe, exact, stop_if_unwanted
from attnscope.records.models import Form, ModelInfo
from attnscope.records.outputs import Candidate, Output, OutputKind, Prediction
from attnscope.records.sites import Site
from attnscope.records.tokens import Token, Tokens
from attnscope.text import NO_CHARACTER, Tokenizer, decode_begun, is_sentinel, spans_of
from attnscope.text.vocabulary import Vocabulary as Entries

N_GUESSES = 8
"""Tokens guessed ahead once the caller's guess has failed; each costs a little in every pass."""

NextTokens = Callable[[Sequence[int], int], list[int]]
"""(ids, n) → the most probable next token after each of the last n of `ids`."""
HearIds = Callable[[Sequence[int]], None]
"""Takes all ids that are written so far, where more are to come."""


def write_greedily(
    next_tokens: NextTokens,
    prefix: Sequence[int],
    *,
    n_tokens: int,
    end_id: int | None,
    guess: Sequence[int] = (),
    is_causal: bool = True,
    hear: HearIds | None = None,
) -> list[int]:
    """At most `n_tokens` ids after `prefix`, without an end token.

    Where a model is not causal, what is guessed would change the answers before it: nothing is guessed then.
    `hear` gets what is written after each pass but the last.
    """
    written: list[int] = []
    coming = list(guess) or _look_up(prefix)
    while len(written) < n_tokens:
        stop_if_unwanted()
        coming = coming[: n_tokens - len(written) - 1] if is_causal else []
        answers = next_tokens([*prefix, *written, *coming], len(coming) + 1)
        n_right = next(
            (i for i, (a, b) in enumerate(zip(coming, answers, strict=False)) if a != b), len(coming)
        )
        accepted = answers[: n_right + 1]
        if end_id in accepted:
            return [*written, *accepted[: accepted.index(end_id)]]
        written += accepted
        if hear is not None and len(written) < n_tokens:
            hear(written)
        coming = _look_up([*prefix, *written]) or answers[n_right + 1 :][:N_GUESSES]
    return written


def _look_up(ids: Sequence[int]) -> list[int]:
    """Continuation of the last token's previous occurrence, repeated to N_GUESSES tokens; or nothing."""
    for start in range(len(ids) - 2, -1, -1):
        if ids[start] == ids[-1]:
            cycle = list(ids[start + 1 :])
            return (cycle * N_GUESSES)[:N_GUESSES]
    return []


class TokensById(Protocol):
    """Tokens by their ids."""

    @property
    def kind(self) -> str:
        """The kind of tokenizer, in words."""

    def has(self, role: str) -> bool:
        """Whether there is a token for the role `pad`, `unknown`, `begin`, `end` or `mask`."""

    @property
    def begin_id(self) -> int:
        """Id of the token before the first; raises UserError if there is none, as do all of these."""

    @property
    def end_id(self) -> int:
        """Id of the token after the last."""

    @property
    def mask_id(self) -> int:
        """Id of the token in place of a hidden one."""

    @property
    def entries(self) -> Entries:
        """Its entries as text; raises UserError if there are none."""

    def token(self, id: int) -> Token:
        """The token of an id, outside any text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, without special tokens."""


class NoTokens(ABC):
    """The vocabulary of a network that has none: ids are indices without further meaning."""

    kind = "none"

    @abstractmethod
    def missing(self, what: str) -> UserError:
        """Error raised when the output is requested."""

    def has(self, role: str) -> bool:
        return False

    @property
    def begin_id(self) -> int:
        raise self.missing("A token for the beginning")

    @property
    def end_id(self) -> int:
        raise self.missing("A token for the end")

    @property
    def mask_id(self) -> int:
        raise self.missing("A token for what is hidden")

    @property
    def entries(self) -> Entries:
        raise self.missing("A vocabulary")

    def token(self, id: int) -> Token:
        raise self.missing("A vocabulary")

    def decode(self, ids: Sequence[int]) -> str:
        raise self.missing("A vocabulary")


class Pass(Protocol):
    """The output of one pass of the model; computed on demand."""

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        """Logits at some positions (None: all) of one copy of the text: float32 [n_positions, n_answers]."""


class Copying(Protocol):
    """A network that can copy source words missing from its vocabulary."""

    def knowing(self, inputs: Inputs) -> "Network":
        """The same network, with these words added to its vocabulary."""


def knowing(network: "Network", inputs: Inputs) -> "Network":
    """The network with a vocabulary for these inputs: it can name every word that may be copied."""
    copying: Copying | None = getattr(network, "copying", None)
    return network if copying is None else copying.knowing(inputs)


class Network(Protocol):
    """One architecture with its weights and its vocabulary."""

    @property
    def form(self) -> Form:
        """Encoder, decoder or encoder–decoder."""

    @property
    def output_kind(self) -> OutputKind:
        """Meaning of its logits."""

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every attention module."""

    @property
    def device(self) -> torch.device:
        """Device of the network."""

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens."""

    @property
    def vocabulary(self) -> TokensById:
        """Its tokens."""

    @property
    def info(self) -> ModelInfo:
        """The model in words and numbers."""

    @property
    def is_training(self) -> bool:
        """Whether it is being trained right now; looking at it must not disturb that."""

    def encode(self, text: str, target: str | None = None) -> Inputs:
        """Both texts as the network reads them; a `target` of None is omitted.

        Raises UserError for a target where none is read.
        """

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        """The same inputs with the network's output as their target (encoder–decoder only)."""

    def run(self, inputs: Inputs, probe: Probe | None = None, *, n_copies: int = 1) -> Pass:
        """One pass in evaluation mode without gradients over `n_copies` of the same text."""

    def write(
        self,
        inputs: Inputs,
        probe: Probe | None = None,
        *,
        n_tokens: int | None = None,
        guess: Sequence[int] = (),
        hear: HearIds | None = None,
    ) -> list[int]:
        """Generate greedily: after the source (decoder), or as the target; without the end token.

        `guess` is what it may well write; a right one saves passes and never changes the result. `hear` gets
        what stands of a target after each pass.
        """

    def answer(self, id: int) -> Token:
        """The token, or the label, of a column of the logits."""

    def shown_positions(self, inputs: Inputs) -> list[int]:
        """The positions whose prediction is shown; see `records.outputs.Output`."""


def number_masks(tokens: Tokens, tokenizer: Tokenizer) -> Tokens:
    """The tokens with each mask turned into a sentinel, in order, if the tokenizer has sentinels.

    Sentinels that the text names itself are not given out twice; masks beyond the last one stay masks.
    """
    if not tokenizer.sentinel_ids or not tokenizer.has("mask"):
        return tokens
    used = set(tokens.ids)
    free = [id for id in tokenizer.sentinel_ids if id not in used][::-1]
    numbered = []
    for token in tokens.tokens:
        if token.id == tokenizer.mask_id and free:
            token = replace(tokenizer.token(free.pop()), start=token.start, end=token.end)
        numbered.append(token)
    return replace(tokens, tokens=tuple(numbered))


def written_text(network: Network, inputs: Inputs, ids: Sequence[int]) -> str:
    """Generated tokens as text; hidden spans are inserted into the text that was read."""
    vocabulary = knowing(network, inputs).vocabulary
    sentinels = vocabulary.sentinel_ids if isinstance(vocabulary, Tokenizer) else ()
    if network.form != "encoder-decoder" or not set(sentinels) & set(inputs.source.ids):
        text = vocabulary.decode(ids)
        is_begun = network.form == "decoder" and text.endswith(NO_CHARACTER)  # cut after so many tokens
        return decode_begun(vocabulary.decode, ids) if is_begun else text
    spans = {sentinel: vocabulary.decode(span) for sentinel, span in spans_of(ids, sentinels)}
    text, filled, end = inputs.source.text, "", 0
    for token in inputs.source.tokens:
        if token.id not in sentinels:
            continue
        filled += text[end : token.start]
        end = token.end
        span = spans.get(token.id)
        if span is None:
            filled += text[token.start : token.end]
            continue
        if filled.endswith(" ") and (not span or span[0].isspace()):
            filled = filled[:-1]  # the span brings its own, or there is nothing to set apart
        filled += span
    return filled + text[end:]


_SUM_TOLERANCE = 1e-9
KINDS: dict[Form, OutputKind] = {
    "decoder": "next-token",
    "encoder": "masked-token",
    "encoder-decoder": "translation",
}


def token_positions(kind: OutputKind, inputs: Inputs, mask_id: int | None) -> list[int]:
    """The positions whose prediction is shown; see `records.outputs.Output`."""
    if kind == "next-token":
        return [len(inputs.source) - 1]
    if kind == "translation":
        return list(range(len(inputs.target or ())))
    if kind == "class":
        return [0]
    if kind == "nothing":
        return []
    tokens = inputs.source.tokens
    masks = [i for i, token in enumerate(tokens) if token.id == mask_id]
    return masks or [i for i, token in enumerate(tokens) if not token.is_special]


def certainty_of(log_p: Tensor, ids: Sequence[int]) -> float:
    """The geometric mean of the probabilities of `ids`; row k of `log_p` [n, vocab] is of the k-th."""
    told = log_p[range(len(ids)), list(ids)]
    return float(told.double().mean().exp())


def build_output(
    network: Network, inputs: Inputs, positions: list[int], log_p: Tensor, *, top: int, generated: str = ""
) -> Output:
    """The `top` candidates at each position; `log_p` has one row for each of `positions`."""
    contexts = _contexts(network, inputs, positions)
    n_shown = max(0, min(top, log_p.shape[-1]))
    values, ids = log_p.topk(n_shown, dim=-1)
    shown = set(ids.flatten().tolist())  # long texts repeat them
    tokens = dict(zip(shown, map(knowing(network, inputs).answer, shown), strict=True))
    rows = zip(positions, contexts, ids.tolist(), values.exp().tolist(), strict=True)
    predictions = tuple(_prediction(tokens, *row) for row in rows)
    return Output(kind=network.output_kind, predictions=predictions, generated=generated)


def _prediction(
    tokens: Mapping[int, Token], position: int, context: str, ids: list[int], probabilities: list[float]
) -> Prediction:
    """One position's candidates; a cancelled pass ends here."""
    stop_if_unwanted()
    pairs = zip(ids, probabilities, strict=True)
    candidates = tuple(Candidate(token=tokens[id], probability=probability) for id, probability in pairs)
    return Prediction(position=position, context=context, candidates=candidates)


def kl_nats(before: Tensor, after: Tensor) -> tuple[float, ...]:
    """KL(before ‖ after) of each row in nats, from log-probabilities over the whole vocabulary.

    Summed in float64, so that two nearly equal outputs do not come out below zero. A row that does not sum to
    1 holds labels of which each may hold or not (`log_probabilities`): KL is the sum of theirs.
    """
    p = before.cpu().double()
    q = after.cpu().double()
    terms = _kl_terms(p, q)
    is_each = (p.exp().sum(dim=-1, keepdim=True) - 1).abs() > _SUM_TOLERANCE
    terms = terms + torch.where(is_each, _kl_terms(*((-one.expm1()).log() for one in (p, q))), 0.0)
    return tuple(terms.sum(dim=-1).clamp(min=0.0).tolist())


def _kl_terms(p: Tensor, q: Tensor) -> Tensor:
    return torch.where(p > -torch.inf, p.exp() * (p - q), 0.0)


def log_probabilities(logits: Tensor, *, is_each: bool = False) -> Tensor:
    """Log-softmax in float64, on the CPU if the device has no double precision; see `finite`.

    Of labels that are told one by one (`is_each`) it is the log-sigmoid.
    """
    wide = exact(finite(logits))
    return logsigmoid(wide) if is_each else wide.log_softmax(dim=-1)


def best_ids(logits: Tensor) -> Tensor:
    """The id of the largest logit of each row; see `finite`."""
    values, ids = logits.max(dim=-1)
    _refuse_not_finite(values)
    return ids


def finite(logits: Tensor) -> Tensor:
    """The logits; raises NotFiniteError for NaN and infinity. −∞ only excludes a token."""
    _refuse_not_finite(logits.detach().amax(dim=-1))
    return logits


def _refuse_not_finite(largest: Tensor) -> None:
    if not largest.numel() or math.isfinite(float(largest.detach().abs().amax())):
        return
    raise NotFiniteError(
        "The model's output is not finite: its logits are NaN or infinite.",
        expected="finite numbers",
        action="Its weights are damaged, or too large: attnscope info says which. Open it from an "
        "undamaged copy.",
    )


def _contexts(network: Network, inputs: Inputs, positions: list[int]) -> list[str]:
    kind = network.output_kind
    tokens = inputs.source.tokens if inputs.target is None else inputs.target.tokens
    if kind == "class" and len(positions) == 1:
        return ["the whole input"]
    if kind not in ("masked-token", "class"):
        return [_after(tokens[position]) for position in positions]
    mask_id = network.vocabulary.mask_id if network.vocabulary.has("mask") else None
    contexts = []
    n_masks = 0
    for position in positions:
        if tokens[position].id == mask_id:
            n_masks += 1
            contexts.append(f"<mask> {n_masks}")
        else:
            contexts.append(f'at "{tokens[position].piece}"')
    return contexts


def _after(token: Token) -> str:
    is_start = token.is_special and not is_sentinel(token.piece)
    return "at the start" if is_start else f'after "{token.piece}"'
