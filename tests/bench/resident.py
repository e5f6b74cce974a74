"""Memory of this process as the system counts it; 0 where it does not say."""

import os
import threading

UNTOLD = "this system does not say what memory a process has"


def resident_bytes() -> int:
    """Memory of this process that is in RAM, what it shares with others counted in (RSS)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def own_bytes() -> tuple[int, int]:
    """What is shared divided among those who share it (PSS), and what is this process's alone (USS)."""
    found = {}
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as stream:
            for line in stream:
                name, _, rest = line.partition(":")
                if rest.endswith("kB\n"):
                    found[name] = int(rest.split()[0]) * 1024
    except OSError:
        return 0, 0
    return found.get("Pss", 0), found.get("Private_Clean", 0) + found.get("Private_Dirty", 0)


class MemoryWatch:
    """The most resident memory of this process while it is open, looked at every 20 ms."""

    def __enter__(self) -> "MemoryWatch":
        self.peak_bytes = resident_bytes()
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory watch")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._is_done.wait(0.02):
            self._look()

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, resident_bytes())
