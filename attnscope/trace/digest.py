"""SHA-256 of what is read, worked out beside the reading: large files are waited for once, not twice."""

import hashlib
from queue import SimpleQueue
from threading import Thread

MIN_BYTES = 2**26
"""Less is not worth a thread."""


class Digest:
    """The SHA-256 of bytes that are given one after the other, and stay as they are until it is asked for.

    No more can be given after the block.
    """

    def __init__(self, first: bytes, n_bytes: int) -> None:
        self._sha256 = hashlib.sha256(first)
        self._waiting: SimpleQueue[memoryview | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="digest", daemon=True) if n_bytes >= MIN_BYTES else None
        if self._thread is not None:
            self._thread.start()

    def update(self, data: memoryview) -> None:
        """Take some more."""
        if self._thread is None:
            self._sha256.update(data)
        else:
            self._waiting.put(data)

    def __enter__(self) -> "Digest":
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.put(None)

    def hexdigest(self) -> str:
        """The result in hexadecimal; waits for it."""
        if self._thread is not None:
            self._thread.join()
        return self._sha256.hexdigest()

    def _work(self) -> None:
        while (data := self._waiting.get()) is not None:
            self._sha256.update(data)
