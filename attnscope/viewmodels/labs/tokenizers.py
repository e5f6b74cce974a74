"""The lab that compares tokenizers on a text: what is asked for, the rows so far, and how they are told."""

from dataclasses import replace

from psygnal import Signal, SignalGroup

from attnscope.counting import format_number, plural
from attnscope.records.messages import ModelLoaded
from attnscope.records.requests import Reply
from attnscope.records.tokenizers import KINDS, CompareTokenizers, TokenizerRow, TokenizersNews
from attnscope.viewmodels.labs.controls import UnkeptControls
from attnscope.viewmodels.query import Job, Requests

SENTENCE = "The smarter rabbit shall not perish: naïve, unbelievably fortunate."
MAX_SIZES = 12
_CLAIM = "Larger vocabularies make shorter texts, and each piece occurs less often"
COLUMNS: tuple[tuple[str, str], ...] = (
    ("tokenizer", "Kind, and the pieces asked for"),
    ("pieces", "Actual vocabulary: a small text may not fill it"),
    ("tokens", "Tokens of the measured text"),
    ("per word", "Tokens for each word between spaces (fertility, Rust et al. 2021)"),
    ("per char.", "Tokens for each character"),
    ("used", "Share of the vocabulary that the measured text uses"),
    ("unknown", "Share of tokens for text that the vocabulary lacks"),
    ("bits/token", "Entropy of single tokens, −Σ p log₂ p (Shannon 1948)"),
    ("bits/char.", "The same for each character of the text; unknown tokens hide the text they replace"),
    ("density", "Tokens for each piece in use: how often a piece occurs"),
    ("training", "Time to train it here, ms"),
)


class TokenizersChanges(SignalGroup):
    """What of the lab can change."""

    choice = Signal()
    rows = Signal()
    """And all that is said of a comparison under way."""


class TokenizersState:
    """Starts and stops comparisons."""

    def __init__(self, requests: Requests) -> None:
        self.job = Job(TokenizersNews, TokenizersNews, requests, is_last=lambda news: news.is_done)
        self.changed = TokenizersChanges()
        self.wish = CompareTokenizers(sentence=SENTENCE)
        self.controls = UnkeptControls(self.wish, lambda: self.wish, self._take)
        self._why_stopped = ""
        self._is_started = False

    # What the person does

    def choose(self, **changes: object) -> None:
        """Change some fields of the request: `text`, `path`, `sentence`, `kinds`, `sizes`, `is_held_out`."""
        wish = replace(self.wish, **changes)  # type: ignore[arg-type]
        self.controls.ask(wish, group="sentence" if changes.keys() == {"sentence"} else "")

    def look(self) -> None:
        """The lab is looked at: the first time, the example is measured at once."""
        if not self._is_started:
            self.start()

    def start(self) -> None:
        """Train and measure all that is asked for; what was on its way is given up."""
        self._is_started = True
        self.job.forget()
        self.job.start(self.wish)
        self.changed.rows.emit()

    def stop(self) -> None:
        """Give the comparison up; the rows stay."""
        self._stop("Stopped.")

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those of older requests change nothing."""
        if isinstance(reply, ModelLoaded):
            self._stop("Stopped because another model was opened.")
        elif self.job.take(reply):
            self.changed.rows.emit()

    # What is shown

    @property
    def news(self) -> TokenizersNews:
        """What is known so far."""
        return self.job.answer or TokenizersNews(number=0, what="Beginning")

    @property
    def is_working(self) -> bool:
        """Whether tokenizers are being trained."""
        return self.job.is_running

    @property
    def error(self) -> str:
        """Why there are no more rows."""
        return self._why_stopped if self.job.phase == "stopped" else self.job.error

    @property
    def rows(self) -> tuple[TokenizerRow, ...]:
        """The rows measured so far, one for each vocabulary that differs."""
        found: dict[tuple[str, object], TokenizerRow] = {}
        for row in self.news.rows:
            found.setdefault((row.kind, f"no {row.asked}" if row.refusal else row.vocab_size), row)
        return tuple(found.values())

    @property
    def sentence(self) -> str:
        """What to see, or what is being done."""
        if self.error:
            return self.error
        if self.is_working:
            return f"{_CLAIM}. Measured here now: {self.news.what}…"
        good = [row for row in self.rows if not row.refusal]
        if not good:
            return f"{_CLAIM}: train a tokenizer of each kind and size on a text, and see."
        shortest = min(
            good, key=lambda row: row.tokens_per_word if row.unknown_share < 0.05 else float("inf")
        )
        text = self.news.text
        where = (
            f"On {plural(text.n_measured_words, 'word')} of {text.name}, the shortest" if text else "Shortest"
        )
        name = f"{KINDS.get(shortest.kind, shortest.kind)} with {shortest.vocab_size:,} pieces"
        return (
            f"{_CLAIM}. {where} without losing words: {name}, "
            f"{format_number(shortest.tokens_per_word)} tokens per "
            f"word, each piece met {format_number(shortest.density)} times."
        )

    def cells(self, row: TokenizerRow) -> tuple[str, ...]:
        """One row as texts, in the order of COLUMNS."""
        name = f"{KINDS.get(row.kind, row.kind)} {row.asked:,}"
        if row.refusal:
            return (name, "too few", *["–"] * (len(COLUMNS) - 2))
        return (
            name,
            f"{row.vocab_size:,}",
            f"{row.n_tokens:,}",
            f"{row.tokens_per_word:.2f}",
            f"{row.tokens_per_character:.2f}",
            f"{row.used_share:.0%}",
            f"{row.unknown_share:.1%}" if row.unknown_share else "none",
            f"{row.bits_per_token:.2f}",
            f"{row.bits_per_character:.2f}",
            f"{row.density:.1f}",
            f"{row.train_ms:.0f} ms",
        )

    def _take(self, wish: CompareTokenizers) -> None:
        if wish != self.wish:
            self.wish = wish
            self.changed.choice.emit()

    def _stop(self, why: str) -> None:
        if self.job.stop():
            self._why_stopped = why
            self.changed.rows.emit()


def sizes_from_text(text: str) -> tuple[int, ...]:
    """Sizes as people type them; what is no number from 8 to 100,000 is left out."""
    words = text.replace(",", " ").replace(";", " ").split()
    numbers = {int(word) for word in words if word.isascii() and word.isdecimal() and len(word) < 7}
    return tuple(sorted(number for number in numbers if 8 <= number <= 100_000)[:MAX_SIZES])
