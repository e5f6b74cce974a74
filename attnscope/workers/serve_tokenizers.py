"""Comparing tokenizers in the background: each is trained in a thread of its own.

Training does not hold the interpreter, so the window stays free; encoding does, and is done in small
pieces. No Qt.
"""

import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from attnscope.paths import resources_folder
from attnscope.records.requests import Reply
from attnscope.records.tokenizers import (
    KINDS,
    MAX_COMPARED_CHARACTERS,
    CompareTokenizers,
    TokenizerRow,
    TokenizersNews,
)
from attnscope.text.files import TextOfFile, read_text_file
from attnscope.text.tokenizer import Tokenizer
from attnscope.text.tokenizer_comparison import (
    described,
    lines_of,
    measure_tokenizer,
    parts_of,
    train_or_refuse,
)
from attnscope.workers.desk import Desk, works

SAMPLE = "tokenizing.txt"
_WAIT_S = 0.03


@works(CompareTokenizers)
def compare_tokenizers(request: CompareTokenizers, desk: Desk) -> Generator[Reply, None, None]:
    """One comparison; a training that is on its way when it is given up ends by itself and is forgotten."""
    return _compare(request)


def _compare(request: CompareTokenizers) -> Generator[Reply, None, None]:
    n_told = 0
    yield TokenizersNews(number=request.number, what="Reading the text")
    text, name, n_cut = yield from _read(request)
    training, measured = parts_of(lines_of(text), is_held_out=request.is_held_out)
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
    """The text, its name, and how much of it was left out."""
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
    """One tokenizer on its way, in a thread that nobody waits for at the end."""

    def __init__(self, kind: str, size: int, lines: Sequence[str]) -> None:
        self._made: Tokenizer | str = ""
        self._error: BaseException | None = None
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
        """The tokenizer, or why there is none; raises what the training raised."""
        if self._error is not None:
            raise self._error
        return self._made

    def _train(self, kind: str, size: int, lines: Sequence[str]) -> None:
        try:
            self._made = train_or_refuse(kind, size, lines)
        except BaseException as error:  # noqa: BLE001  handed to the worker, which tells it
            self._error = error
        self.train_ms = 1e3 * (time.perf_counter() - self._began_s)
