"""Answering what the window asks of tokenizers: replays, vocabularies, single pieces. No Qt."""

import weakref
from collections.abc import Generator, Iterator
from typing import Any

from attnscope.analysis.neighbours import nearest_pieces
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.models.own import OwnNetwork
from attnscope.records.messages import Progress
from attnscope.records.requests import Reply
from attnscope.records.splits import ReplaySplits, SplitsReplayed
from attnscope.records.tokens import Tokens
from attnscope.records.vocabulary import (
    FindPieces,
    PiecesFound,
    PieceShown,
    ShowPiece,
    ShowVocabulary,
    SpellText,
    TextSpelled,
    VocabularyShown,
)
from attnscope.text.cleaning import clean_text
from attnscope.text.placing import place_tokens
from attnscope.text.replay import Splitter
from attnscope.text.tokenizer import train_tokenizer
from attnscope.text.tokenizer_comparison import lines_of
from attnscope.text.vocabulary import Vocabulary
from attnscope.text.vocabulary_table import SearchedVocabulary, build_table, describe_piece, find_pieces
from attnscope.workers.desk import Desk, serves
from attnscope.workers.serve_tokenizers import sample_path

MAX_TYPED = 20_000


class TokenDesk:
    """The tokenizer of the open model taken apart, its table, and the one trained here last."""

    def __init__(self) -> None:
        self._vocabulary: weakref.ref[Vocabulary] | None = None
        self._splitter: Splitter | None = None
        self.searched: SearchedVocabulary | None = None
        self._trained_key: object = None
        self._trained: Splitter | None = None

    def forget_model(self) -> None:
        """Another model is open."""
        self._vocabulary = self._splitter = self.searched = None

    def splitter(self, model: Model) -> Splitter:
        """The model's tokenizer; raises UserError for a model that reads no text."""
        entries = vocabulary_of(model)
        if self._splitter is None or self._vocabulary is None or self._vocabulary() is not entries:
            self._splitter, self._vocabulary = Splitter(entries), weakref.ref(entries)
            self.searched = None
        return self._splitter

    def trained(self, request: ReplaySplits) -> Splitter:
        """A tokenizer trained on the typed text or on the sample; raises RecipeError for a wrong size."""
        text = request.text[:MAX_TYPED] if request.source == "text" else sample_path().read_text("utf-8")
        key = (text, request.kind, request.vocab_size)
        if self._trained is None or key != self._trained_key:
            lines = lines_of(text)
            made = train_tokenizer(request.kind, lines, vocab_size=request.vocab_size)
            self._trained, self._trained_key = Splitter(made.entries, lines), key
        return self._trained


def vocabulary_of(model: Model) -> Vocabulary:
    """The entries of the model's tokenizer; raises UserError for a model that reads no text."""
    entries: Any = getattr(model.network.vocabulary, "entries", None)
    if not isinstance(entries, Vocabulary):
        raise UserError(
            f"{model.info.name} reads no text with a tokenizer.",
            expected="a model with a tokenizer",
            action="Open another model.",
        )
    return entries


@serves(ReplaySplits)
def replay_splits(request: ReplaySplits, desk: Desk) -> Iterator[Reply]:
    """How a tokenizer splits the text, step by step."""
    if request.source == "model":
        model = desk.model
        splitter, name = desk.kept(TokenDesk).splitter(model), model.info.name
    else:
        splitter = desk.kept(TokenDesk).trained(request)
        name = "trained on this text" if request.source == "text" else "trained on the sample text"
    yield SplitsReplayed(number=request.number, replay=splitter.replay(request.text, name))


@serves(ShowVocabulary)
def show_vocabulary(request: ShowVocabulary, desk: Desk) -> Iterator[Reply]:
    """The whole vocabulary; read once for each model."""
    yield VocabularyShown(number=request.number, table=(yield from _searched(request.number, desk)).table)


@serves(FindPieces)
def find_in_vocabulary(request: FindPieces, desk: Desk) -> Iterator[Reply]:
    """The ids that fit."""
    searched = yield from _searched(request.number, desk)
    ids, note = find_pieces(searched, request)
    yield PiecesFound(number=request.number, ids=ids, note=note)


@serves(ShowPiece)
def show_piece(request: ShowPiece, desk: Desk) -> Iterator[Reply]:
    """One piece, with its neighbours where the model is ours."""
    model = desk.model
    splitter = desk.kept(TokenDesk).splitter(model)
    nearest: tuple[tuple[int, str, float], ...] = ()
    if isinstance(model.network, OwnNetwork):
        weight = getattr(getattr(model.network.module, "tokens", None), "weight", None)
        if weight is not None:
            found = nearest_pieces(weight, request.id)
            nearest = tuple((id, splitter.entries.token(id).piece, cosine) for id, cosine in found)
    yield PieceShown(number=request.number, detail=describe_piece(splitter, request.id, nearest))


@serves(SpellText)
def spell_text(request: SpellText, desk: Desk) -> Iterator[Reply]:
    """The tokens of a text, with nothing around them."""
    entries = vocabulary_of(desk.model)
    clean = clean_text(request.text, max_characters=4_000)
    found = entries.library.encode(clean.text, add_special_tokens=False)
    spans = [(id, start, end) for id, (start, end) in zip(found.ids, found.offsets, strict=True)]
    unknown = entries.roles.get("unknown")
    tokens = Tokens(
        text=clean.text,
        tokens=tuple(place_tokens(clean.text, spans, entries)),
        n_unknown=sum(id == unknown for id in found.ids),
        n_cut=clean.n_cut,
    )
    yield TextSpelled(number=request.number, tokens=tokens, unknown_id=unknown)


def _searched(number: int, desk: Desk) -> Generator[Reply, None, SearchedVocabulary]:
    model, kept = desk.model, desk.kept(TokenDesk)
    splitter = kept.splitter(model)
    if kept.searched is None:
        for found in build_table(splitter, model.info.name):
            if isinstance(found, SearchedVocabulary):
                kept.searched = found
            else:
                yield Progress(number=number, what="Reading the vocabulary", fraction=found)
    assert kept.searched is not None
    return kept.searched
