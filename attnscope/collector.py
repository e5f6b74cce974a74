"""Python's garbage collector while a command begins.

Importing torch and the parts of this program makes some four hundred thousand objects, which stay. The
collector walks them again and again meanwhile: an eighth of the processor time of a short command. So a
process that is a command of ours collects seldom until there is a model, or a training begins; elsewhere
nothing is changed. Knows nothing of the program.
"""

import gc

_SELDOM = 200_000
_usual: list[tuple[int, int, int]] = []


def collect_seldom() -> None:
    """From now on the collector walks young objects only where there are 200,000 of them."""
    if gc.isenabled() and not _usual:
        _usual.append(gc.get_threshold())
        gc.set_threshold(_SELDOM, *_usual[0][1:])


def collect_as_usual() -> None:
    """After `collect_seldom`, as before it; what there is by now stays and is walked no more."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())
