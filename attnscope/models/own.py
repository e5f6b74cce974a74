"""Our own models as a network."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.checkpoint import ModelCard, closed_gates, closed_note
from attnscope.models.inputs import (
    Inputs,
    encode_picture,
    encode_second,
    encode_source,
    encode_target,
    join_segments,
    own_picture,
    own_target,
    with_sentences,
)
from attnscope.models.network import KINDS, HearIds, number_masks, token_positions
from attnscope.models.passes import continue_text, evaluating_tokens, hidden_stream, translate
from attnscope.models.writing.writer import OwnWriter, RecomputingWriter, Writer
from attnscope.nn import UNKNOWN_ID, Guide, ModelConfig, Probe, Transformer, count_parameters
from attnscope.nn.embedding_and_head import ANSWER, CopyingHead, behind_memory, pointed
from attnscope.nn.own_module import OwnModule
from attnscope.records.maps import Picture
from attnscope.records.models import Form, ModelInfo
from attnscope.records.outputs import NOT_MEANT, OutputKind
from attnscope.records.sites import Gates, HeadRef, Site
from attnscope.records.tokens import Token, Tokens
from attnscope.text import Tokenizer, labelled_positions, may_be_meant, samples_for
from attnscope.text.tasks import known_words, written_words

_ANY_PICTURES = "drawn-shapes"
"""The task whose pictures are samples for whoever learned others: any model of pictures reads them."""
MAX_PAST_TOKENS = 131_072
"""Texts are cut here even when positions past the trained ones may be read."""


class OwnPass:
    """The last hidden stream of one pass; logits are computed for as many positions as are requested.

    `is_pair` says that two texts were read as two segments. Of a model that points to tokens, the ones that
    it may point to, each has two logits: of belonging to the answer, and of not.
    """

    def __init__(
        self,
        module: OwnModule,
        hidden: Tensor,
        *,
        is_pair: bool = False,
        may_point_to: Sequence[int] = (),
    ) -> None:
        self._module, self._hidden, self._is_pair = module, hidden, is_pair
        self._may_point_to = may_point_to
        self.copies = module.config.copies_source

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        if self._may_point_to:
            with torch.no_grad():
                whole = self._module.logits(self._hidden[copy]).float()
            told = pointed(whole, self._may_point_to)
            return told if positions is None else told[_places(positions)]
        hidden = self._hidden[copy] if positions is None else self._hidden[copy, _places(positions)]
        with torch.no_grad():
            return self._module.logits(hidden).float()

    def p_write(self, positions: Sequence[int], copy: int = -1) -> tuple[float, ...]:
        """p_gen at some positions, 0…1 (`nn/copying.py`); only of a model that copies."""
        head = self._module.head
        if not isinstance(head, CopyingHead):
            raise ValueError("this model copies nothing")
        with torch.no_grad():
            stream = self._hidden[copy, _places(positions), : self._module.config.d_model]
            told = head.copy_gate(stream).float()
        return tuple(told[:, 0].sigmoid().tolist())

    def follows(self, copy: int = -1) -> float | None:
        """The probability that the second text follows the first (Devlin et al. 2018, section 3.1), 0…1.

        None for a model that never learned it, and for one text.
        """
        module = self._module
        if not (self._is_pair and isinstance(module, Transformer) and module.config.has_next_sentence):
            return None
        with torch.no_grad():
            logits = module.next_sentence_logits(self._hidden[copy, None]).float()
        return float(logits.softmax(dim=-1)[0, 1])


class OwnNetwork:
    """A module of ours with its tokenizer; it may be in training."""

    def __init__(
        self,
        module: OwnModule,
        tokenizer: Tokenizer,
        card: ModelCard,
        *,
        source: str = "",
        sha256: str = "",
        note: str = "",
    ) -> None:
        self.module = module
        self.vocabulary = tokenizer
        self.card = card
        self.sites: tuple[Site, ...] = module.sites()
        self._source, self._sha256, self._note = source, sha256, note
        self._points = module.config.points
        copies = module.config.copies_source and tokenizer.unknown_id == UNKNOWN_ID
        self.copying = self if copies else None

    @property
    def config(self) -> ModelConfig:
        return self.module.config

    @property
    def form(self) -> Form:
        return self.config.form

    @property
    def output_kind(self) -> OutputKind:
        return "class" if self.config.n_labels else KINDS[self.form]

    @property
    def device(self) -> torch.device:
        return self.module.device

    @property
    def max_tokens(self) -> int:
        return self.config.max_tokens

    @property
    def is_training(self) -> bool:
        return self.module.training

    @property
    def info(self) -> ModelInfo:
        config = self.config
        task, options = self.card.training.get("task"), self.card.training.get("task_options")
        task = task or (_ANY_PICTURES if config.patch_size else None)
        return ModelInfo(
            name=self.card.name,
            source=self._source,
            form=config.form,
            objective=self.card.objective,
            n_parameters=self._n_parameters,
            max_tokens=config.max_tokens,
            vocab_size=config.vocab_size,
            tokenizer=self.vocabulary.kind,
            device=str(self.device),
            sha256=self._sha256,
            sites=self.sites,
            gates=self.first_gates,
            samples=samples_for(
                config.form,
                task if isinstance(task, str) else self.card.objective,
                self.card.name,
                options if isinstance(options, dict) else None,
            ),
            note=" ".join(filter(None, (self._note, closed_note(self.first_gates)))),
            can_read_past=self.can_read_past,
            body=config.body.upper() if config.is_recurrent else "",
            mixer="" if config.mixer == "attention" else config.mixer,
            reads_pairs=self.config.reads_pair or self.config.joins_texts,
            labels=self.card.labels,
            guided=self._guided_head,
            words=self._words,
            writes=written_words(self.card.training.get("task"), self.card.objective),
            reads="picture" if config.patch_size else "text",
        )

    @cached_property
    def _n_parameters(self) -> int:
        return count_parameters(self.config).total

    @cached_property
    def _words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.config.patch_size:
            return (), ()  # a name is read by no model
        return known_words(self.vocabulary.entries, self.card.training.get("task"))

    @property
    def _guided_head(self) -> HeadRef | None:
        """The head that training guided, if the card names one that still exists."""
        guide = Guide.named(str(self.card.training.get("guided_head", "")), 1.0)
        for site in self.sites:
            if guide is not None and site.key == ("cross", guide.layer):
                numbers = site.former or tuple(range(site.n_heads))
                return site.heads[numbers.index(guide.head)] if guide.head in numbers else None
        return None

    @property
    def first_gates(self) -> Gates:
        """0 for the heads that the model's training closed."""
        return closed_gates(self.card.training, self.sites)

    @property
    def can_read_past(self) -> bool:
        """Whether texts past the trained length can be read: not with learned positions."""
        return self.module.can_read_past and not self.config.patch_size

    def encode(self, text: str, target: str | None = None, *, past_trained: bool = False) -> Inputs:
        """Encode both texts; of two that are matched, the second may be empty.

        With `past_trained` the source may be longer than the model was trained for, where its positions are
        computed and not learned; the tokens say how many.
        """
        if self.config.patch_size:
            return encode_picture(self.config, text, target)
        n_memory = self.config.memory_tokens
        if n_memory:
            if target is not None:
                encode_target(
                    self.vocabulary, self.form, target, self.max_tokens
                )  # which tells what is wrong
            source = encode_source(self.vocabulary, self.form, text, self.max_tokens - n_memory)
            return Inputs(source=behind_memory(source, self.config.vocab_size, n_memory))
        reads_past = past_trained and self.can_read_past
        n_most = max(self.max_tokens, MAX_PAST_TOKENS) if reads_past else self.max_tokens
        tokenizer, source = self.vocabulary, encode_source(self.vocabulary, self.form, text, n_most)
        if self.copying:
            tokenizer = tokenizer.knowing(source)
            source = encode_source(tokenizer, self.form, text, n_most)
        if self.form == "encoder-decoder":
            source = number_masks(source, tokenizer)
        if len(source) > self.max_tokens:
            self.module.reach_past(len(source))
            source = replace(source, n_untrained=len(source) - self.max_tokens)
        if target and self.config.joins_texts:
            second = self.vocabulary.encode(target, add_end=True, max_tokens=self.max_tokens)
            joined = join_segments(source, second, self.max_tokens)
            return replace(joined, source=self._with_sentences(joined.source))
        source = self._with_sentences(source)
        if self.config.reads_pair:
            second = encode_second(self.vocabulary, target or "", self.max_tokens)
            return Inputs(source=source, target=second)
        if target is None or self.config.joins_texts:
            return Inputs(source=source)
        read = encode_target(tokenizer, self.form, target, self.max_tokens)
        return Inputs(source=source, target=read)

    def picture(self, text: str) -> Picture:
        """See `models.pictures.ReadsPictures`."""
        if not self.config.patch_size:
            raise UserError(
                f"{self.card.name} reads no pictures.", expected="a vision model", action="Open one."
            )
        return own_picture(self.config, text)

    def _with_sentences(self, source: Tokens) -> Tokens:
        """The tokens, with their sentences if these are pooled."""
        if self.config.n_labels and self.config.pooling == "hierarchical":
            return with_sentences(source, self.config.sentence_ends)
        return source

    def knowing(self, inputs: Inputs) -> "OwnNetwork":
        tokenizer = self.vocabulary.knowing(inputs.source) if self.copying else self.vocabulary
        if tokenizer is self.vocabulary:
            return self
        knowing = copy(self)
        knowing.vocabulary = tokenizer
        return knowing

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        """The same source with the generated target."""
        knower = self.knowing(inputs) if self.copying else self
        target = own_target(knower.vocabulary, list(written))
        return Inputs(source=inputs.source, target=target, is_own_target=True)

    def run(self, inputs: Inputs, probe: Probe | None = None, *, n_copies: int = 1) -> OwnPass:
        """Run one pass; a model in training is put back into it. Raises UserError for a mask over slots."""
        if inputs.pattern is not None and self.config.n_projected:
            raise UserError(
                "The heads of this model attend to slots and not to tokens.",
                expected="no mask of the text",
                action="Remove the mask, or open a model without n_projected.",
            )
        if inputs.pattern is not None and not self.config.has_sites:
            raise UserError(
                f"The layers of this model have no attention that a mask could limit: {self.config.mixer}.",
                expected="no mask of the text",
                action="Remove the mask, or open a model with attention.",
            )
        with evaluating_tokens(self.module, n_copies * inputs.n_tokens):
            hidden = hidden_stream(self.module, inputs, probe, n_copies=n_copies)
        ends = _meanable(inputs.source) if self._points else ()
        return OwnPass(self.module, hidden, is_pair=bool(inputs.segments), may_point_to=ends)

    def write(
        self,
        inputs: Inputs,
        probe: Probe | None = None,
        *,
        n_tokens: int | None = None,
        guess: Sequence[int] = (),
        hear: HearIds | None = None,
    ) -> list[int]:
        """Generate greedily."""
        ids = inputs.source.ids
        with evaluating_tokens(self.module, len(ids)):
            if self.form == "decoder":
                end_id = self.vocabulary.end_id if self.vocabulary.has("end") else None
                n_free = self.max_tokens if n_tokens is None else n_tokens
                return continue_text(self.module, ids, probe, n_tokens=n_free, end_id=end_id, guess=guess)
            # A model in training may never write its end token: half as long again and some shows that.
            return translate(
                self.module,
                ids,
                probe,
                begin_id=self.vocabulary.begin_id,
                end_id=self.vocabulary.end_id,
                n_tokens=3 * len(ids) // 2 + 10 if n_tokens is None else n_tokens,
                guess=guess,
                hear=hear,
            )

    def writer(self, probe: Probe | None = None) -> Writer:
        """Writer that generates token by token, with a cache if the mask allows it."""
        return OwnWriter(self.module, probe) if self.module.can_cache else RecomputingWriter(self, probe)

    def answer(self, id: int) -> Token:
        """The token of a column of the logits, or the label."""
        if self._points:
            name = self.card.labels[0] if len(self.card.labels) == 1 else ANSWER
            return Token(id=id, piece=(name, NOT_MEANT)[id])
        return Token(id=id, piece=self.card.labels[id]) if self.card.labels else self.vocabulary.token(id)

    def shown_positions(self, inputs: Inputs) -> list[int]:
        if self._points:
            return _meanable(inputs.source)
        if self.config.labels_tokens:
            return labelled_positions(inputs.source.tokens)
        mask_id = self.vocabulary.mask_id if self.vocabulary.has("mask") else None
        return token_positions(self.output_kind, inputs, mask_id)


def _meanable(source: Tokens) -> list[int]:
    return [i for i, token in enumerate(source.tokens) if may_be_meant(token)]


def _places(positions: Sequence[int]) -> slice | list[int]:
    """Positions as an index: a slice if they are consecutive, which waits for no device."""
    first, n = (positions[0] if positions else 0), len(positions)
    return slice(first, first + n) if list(positions) == list(range(first, first + n)) else list(positions)
