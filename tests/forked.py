"""Scripts in processes of their own that find imported what training needs: torch alone takes seconds."""

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TextIO

_CONTEXT = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
_CONTEXT.set_forkserver_preload(["torch._dynamo", "attnscope.training.loop"])


def start(script: str, *arguments: object, **variables: str) -> tuple[BaseProcess, TextIO]:
    """Run a script as `python -c` does; gives the process, and what it prints and complains of."""
    reading, writing = _CONTEXT.Pipe(duplex=False)
    with reading, writing:
        given = script, [str(one) for one in arguments], {**os.environ, **variables}, writing
        process = _CONTEXT.Process(target=_run, args=given)
        process.start()
        return process, os.fdopen(os.dup(reading.fileno()), encoding="utf-8")


def _run(script: str, arguments: list[str], variables: dict[str, str], told: Connection) -> None:
    for descriptor in (1, 2):
        os.dup2(told.fileno(), descriptor)
    told.close()
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["-c", *arguments]
    exec(script, {"__name__": "__main__"})
