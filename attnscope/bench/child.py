"""Measuring in a process of its own: what it tells is the last line it prints, as JSON."""

import json
import subprocess
import sys
from typing import Any

from attnscope.boot import prepared
from attnscope.errors import UserError


def told_by(
    module: str, *arguments: str, has_window: bool = False, within_s: float = 120.0, compiled: str = ""
) -> dict[str, Any]:
    """Run a module of this program as a process and return what it told.

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
            [sys.executable, "-m", module, *arguments],
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
