"""Measuring in a process of its own: what it tells is the last line it prints, as JSON."""

import json
import subprocess
import sys
from typing import Any

from attnscope.boot import environment
from attnscope.errors import UserError


def told_by(module: str, *arguments: str, within_s: float = 900.0, compiled: str = "") -> dict[str, Any]:
    """Run a module of this program as a process and return what it told; raises UserError when it failed.

    Where this process may keep no compiled modules, the other keeps its own in the folder `compiled`.
    """
    variables = dict(environment())
    if compiled and sys.dont_write_bytecode:
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        variables["PYTHONPYCACHEPREFIX"] = compiled
    process = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=variables,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    try:
        told: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise UserError(f"{module} told nothing: {process.stderr.strip()[-300:]}") from error
    return told
