"""A command as a person types it, in the quotes of the shell that is there."""

import shlex
import subprocess
import sys
from collections.abc import Sequence


def shell_line(words: Sequence[str], platform: str = sys.platform) -> str:
    """The words as one line: in double quotes where they need any on Windows, whose shells know no others."""
    return subprocess.list2cmdline(words) if platform == "win32" else shlex.join(words)
