"""Measuring in a process of its own: what it tells is the last line it prints, as JSON."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from attnscope.boot import prepared
from attnscope.errors import UserError

_PATHS = [str(folder) for folder in Path(__file__).resolve().parents[1:3]]
"""Where the benchmarks are, and the program that they measure."""


def command_of(module: str, *arguments: str) -> list[str]:
    """What runs a module, of this checkout or of its benchmarks, as a process, wherever that is started."""
    code = (
        f"import runpy, sys; sys.path[:0] = {_PATHS}; "
        "del sys.argv[0]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", code, module, *arguments]


def told_by(
    module: str, *arguments: str, has_window: bool = False, within_s: float = 120.0, compiled: str = ""
) -> dict[str, Any]:
    """Run a module as a process and return what it told.

    It computes with the threads that a window, or a command, takes for itself. Where this process may keep no
    compiled modules, the other keeps its own in the folder `compiled`. Raises UserError when it failed, or
    did not end in time.
    """
    variables = prepared(has_window=has_window)
    if compiled and sys.dont_write_bytecode:
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        variables["PYTHONPYCACHEPREFIX"] = compiled
    try:
        process = subprocess.run(
            command_of(module, *arguments),
            env=variables,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{module} did not end within {within_s:.0f} s.") from error
    try:
        told: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise UserError(f"{module} told nothing: {process.stderr.strip()[-300:]}") from error
    return told
