"""Serves the window's requests about tokenizers: replays, vocabularies, pieces, and comparisons. No Qt."""

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from attnscope.analysis.one_head import nearest_pieces
from attnscope.errors import UserError
from attnscope.last_made import LastMade
from attnscope.models import Model, OwnNetwork
from attnscope.paths import resources_folder
from attnscope.records.messages import Progress
from attnscope.records.requests import Reply
from attnscope.records.tokenizers import (
    KINDS,
    MAX_COMPARED_CHARACTERS,
    CompareTokenizers,
    FindPieces,
    PiecesFound,
    PieceShown,
    ReplaySplits,
    ShowPiece,
    ShowVocabulary,
    SpellText,
    SplitsReplayed,
    TextSpelled,
    TokenizerRow,
    TokenizersNews,
    VocabularyShown,
)
from attnscope.records.tokens import Tokens
from attnscope.text import (
    SearchedVocabulary,
    Splitter,
    TextOfFile,
    Tokenizer,
    Vocabulary,
    build_table,
    clean_text,
    describe_piece,
    described,
    find_pieces,
    full_lines,
    measure_tokenizer,
    parts_of,
    place_tokens,
    read_text_file,
    train_or_refuse,
    train_tokenizer,
)
from attnscope.workers.engine import Desk, serves, works

MAX_TYPED = 20_000


class TokenDesk:
    """The tokenizer of the open model, analysed, its table, and the one last trained here."""

    def __init__(self) -> None:
        self._own: LastMade[Splitter] = LastMade()
        self._trained: LastMade[Splitter] = LastMade()
        self.searched: SearchedVocabulary | None = None

    def forget_model(self) -> None:
        self._own.forget()
        self.searched = None

    def splitter(self, model: Model) -> Splitter:
        """The model's tokenizer; raises UserError for a model that reads no text."""
        entries = entries_of(model)

        def make() -> Splitter:
            self.searched = None
            return Splitter(entries)

        return self._own.of(id(entries), make)  # which it holds: no other has its number meanwhile

    def trained(self, request: ReplaySplits) -> Splitter:
        """A tokenizer trained on the typed text or on the sample; raises RecipeError for an invalid size."""
        text = request.text[:MAX_TYPED] if request.source == "text" else sample_path().read_text("utf-8")

        def make() -> Splitter:
            lines = full_lines(text)
            made = train_tokenizer(request.kind, lines, vocab_size=request.vocab_size)
            return Splitter(made.entries, lines)

        return self._trained.of((text, request.kind, request.vocab_size), make)


def entries_of(model: Model) -> Vocabulary:
    """The entries of the model's tokenizer; raises UserError for a model that reads no text."""
    entries: Any = getattr(model.network.vocabulary, "entries", None)
    if not isinstance(entries, Vocabulary):
        raise UserError(
            f"{model.info.name} has no tokenizer.",
            expected="a model with a tokenizer",
            action="Open another model.",
        )
    return entries


@serves(ReplaySplits)
def replay_splits(request: ReplaySplits, desk: Desk) -> Iterator[Reply]:
    """Replay a tokenizer's splitting of the text, step by step."""
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
    searched = yield from _searched(request.number, desk)
    ids, note = find_pieces(searched, request)
    yield PiecesFound(number=request.number, ids=ids, note=note)


@serves(ShowPiece)
def show_piece(request: ShowPiece, desk: Desk) -> Iterator[Reply]:
    """One piece, with its neighbours if the model is ours."""
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
    """The tokens of a text, without special ones."""
    entries = entries_of(desk.model)
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


SAMPLE = "tokenizing.txt"
_WAIT_S = 0.03


@works(CompareTokenizers)
def compare_tokenizers(request: CompareTokenizers, desk: Desk) -> Generator[Reply, None, None]:
    """Run one comparison; when it is cancelled, a training in progress ends by itself and is dropped."""
    n_told = 0
    yield TokenizersNews(number=request.number, what="Reading the text")
    text, name, n_cut = yield from _read(request)
    training, measured = parts_of(full_lines(text), is_held_out=request.is_held_out)
    facts = described(name, training, measured, n_cut)
    wanted = [(kind, size) for kind in request.kinds for size in request.sizes]
    rows: list[TokenizerRow] = []

    def news(part: float, what: str) -> TokenizersNews:
        nonlocal n_told
        fraction, is_new, n_told = (len(rows) + part) / max(1, len(wanted)), len(rows) > n_told, len(rows)
        return TokenizersNews(
            number=request.number, rows=tuple(rows), fraction=fraction, what=what, text=facts, is_new=is_new
        )

    for kind, size in wanted:
        what = f"{KINDS.get(kind, kind)}, {size:,} pieces"
        training_run = _Training(kind, size, training)
        while training_run.is_running(_WAIT_S):
            yield news(0.0, f"Training {what}")
        made = training_run.result()
        if isinstance(made, str):
            rows.append(TokenizerRow(kind=kind, asked=size, refusal=made))
            continue
        for found in measure_tokenizer(
            made,
            kind=kind,
            asked=size,
            lines=measured,
            facts=facts,
            sentence=request.sentence,
            train_ms=training_run.train_ms,
        ):
            if isinstance(found, TokenizerRow):
                rows.append(found)
            else:
                yield news(0.5 + 0.5 * found, f"Measuring {what}")
        yield news(0.0, what)
    yield TokenizersNews(number=request.number, rows=tuple(rows), fraction=1.0, is_done=True, text=facts)


def _read(request: CompareTokenizers) -> Generator[TokenizersNews, None, tuple[str, str, int]]:
    """The text, its name, and the amount left out."""
    if request.text.strip() and not request.path:
        text = request.text[:MAX_COMPARED_CHARACTERS]
        return text, "the pasted text", len(request.text) - len(text)
    path = Path(request.path) if request.path else sample_path()
    for found in read_text_file(path, max_characters=MAX_COMPARED_CHARACTERS):
        if isinstance(found, TextOfFile):
            name = path.name if request.path else "the sample text"
            return found.text, name, found.n_cut_bytes
        yield TokenizersNews(number=request.number, what=f"Reading {path.name}")
    raise RuntimeError("a text file ended without its text")


def sample_path() -> Path:
    """The text that ships with the program for this."""
    return resources_folder() / "samples" / SAMPLE


class _Training:
    """One tokenizer in training, in a thread that nobody waits for at exit."""

    def __init__(self, kind: str, size: int, lines: Sequence[str]) -> None:
        self._made: Future[Tokenizer | str] = Future()
        self._began_s = time.perf_counter()
        self.train_ms = 0.0
        self._thread = threading.Thread(
            target=self._train, args=(kind, size, lines), name="tokenizer training", daemon=True
        )
        self._thread.start()

    def is_running(self, wait_s: float) -> bool:
        """Whether it still runs after at most `wait_s`."""
        self._thread.join(wait_s)
        return self._thread.is_alive()

    def result(self) -> Tokenizer | str:
        """The tokenizer, or why there is none; raises the training's exception."""
        return self._made.result(timeout=0)

    def _train(self, kind: str, size: int, lines: Sequence[str]) -> None:
        try:
            self._made.set_result(train_or_refuse(kind, size, lines))
        except BaseException as error:  # noqa: BLE001  handed to the worker, which tells it
            self._made.set_exception(error)
        self.train_ms = 1e3 * (time.perf_counter() - self._began_s)
