"""Tokenizers of large vocabularies are read once, however many models come with the same file.

The library holds the interpreter while it reads a vocabulary, and with it the window (see
`tokenizer_files.py`). So what was read is shared by all models whose file has the same bytes, and the last
ones read stay for the next opening.
"""

import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cache

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.text.guarding import empty_library

MANY = 20_000
"""Pieces from which on reading and dropping a vocabulary would delay the window."""
MOST_KEPT = 65_536
"""Pieces of all that stay though no model reads them: GPT-2's 50,257, some 60 MB at most."""
_MOST_CHARACTERS = 2**23
"""Of a file whose tokenizer may stay."""


class ReadTokenizer:
    """A tokenizer of the library, for as long as somebody holds this; a large one is then emptied.

    Nobody changes it: others may read with it.
    """

    def __init__(self, library: LibraryTokenizer) -> None:
        library.no_truncation()
        library.no_padding()
        self.library = library
        self.n_pieces: int = library.get_vocab_size(with_added_tokens=False)
        if self.n_pieces >= MANY:
            weakref.finalize(self, empty_library, library).atexit = False


class TokenizerShelf:
    """What was read, by the digest of the file's content."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most = most_kept
        self._held: weakref.WeakValueDictionary[bytes, ReadTokenizer] = weakref.WeakValueDictionary()
        self._last: OrderedDict[bytes, ReadTokenizer] = OrderedDict()
        self._lock = threading.RLock()

    def take(self, content: str, read: Callable[[str], LibraryTokenizer]) -> ReadTokenizer:
        """The tokenizer of a file's content, which `read` reads unless it is here; its errors pass."""
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            taken = self._held.get(digest)
            if taken is None:
                taken = ReadTokenizer(read(content))
            if taken.n_pieces >= MANY:
                self._held[digest] = taken
                if taken.n_pieces <= self._most and len(content) <= _MOST_CHARACTERS:
                    self._keep(digest, taken)
            return taken

    def _keep(self, digest: bytes, taken: ReadTokenizer) -> None:
        """Let it stay as the last one, and as many of those before as there is room for."""
        self._last[digest] = taken
        self._last.move_to_end(digest)
        while sum(kept.n_pieces for kept in self._last.values()) > self._most:
            self._last.popitem(last=False)


@cache
def shelf() -> TokenizerShelf:
    """The one of this process."""
    return TokenizerShelf()
