"""Where a bundle starts: the command line, as `python -m attnscope` does.

PyInstaller's own preparations are left out of the bundle (`attnscope.spec`), and those that are left are
undone here: they import Qt and `multiprocessing` before a page of help is printed, look every module up in an
archive that this bundle does not have, and hand its libraries on to every program that is started from it.
"""

import os
import sys
from collections.abc import Mapping, Sequence

_HELPERS = (
    "from multiprocessing.resource_tracker import main",
    "from multiprocessing.forkserver import main",
    "import sys; from multiprocessing.forkserver import main",
)
"""What `multiprocessing` asks of the interpreter, for which it takes this program."""


def prepare() -> None:
    """Find modules as Python itself does, and give other programs the environment that a user has."""
    sys.path_hooks[:] = [hook for hook in sys.path_hooks if "Frozen" not in getattr(hook, "__qualname__", "")]
    sys.path_importer_cache.clear()
    os.environ.pop("QT_PLUGIN_PATH", None)  # of another Qt, whose plugins do not fit this one
    if sys.platform == "linux":
        os.environ.update(readable_locale(os.environ))
    theirs = outer_environment(os.environ)
    for name in ("LD_LIBRARY_PATH", "LD_LIBRARY_PATH_ORIG"):
        os.environ.pop(name, None)
    os.environ.update(theirs)


def outer_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The user's search path of libraries, which the bootloader has kept, if there was one.

    This process keeps the bundle's: the loader reads it once, at the start.
    """
    kept = variables.get("LD_LIBRARY_PATH_ORIG")
    return {} if kept is None else {"LD_LIBRARY_PATH": kept}


def readable_locale(variables: Mapping[str, str]) -> dict[str, str]:
    """UTF-8 where no language is set, as Python itself has it (PEP 538); Qt warns of anything else."""
    named = variables.get("LC_ALL") or variables.get("LC_CTYPE") or variables.get("LANG") or "C"
    return {"LC_CTYPE": "C.UTF-8"} if named in ("C", "POSIX") and not variables.get("LC_ALL") else {}


def helper_command(arguments: Sequence[str]) -> str:
    """The line of Python that a helper of `multiprocessing` is to run; empty for every other start."""
    if arguments[:1] == ["--multiprocessing-fork"]:
        given = ", ".join(word for word in arguments[1:] if word.replace("=", "").isidentifier())
        return f"from multiprocessing.spawn import spawn_main; spawn_main({given})"
    command = arguments[arguments.index("-c") + 1 :][:1] if "-c" in arguments else []
    return command[0] if command and command[0].startswith(_HELPERS) else ""


def main() -> int:
    """Run the command line, or be a helper; returns the exit code."""
    prepare()
    command = helper_command(sys.argv[1:])
    if command:
        exec(command, {})
        return 0
    from attnscope.__main__ import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
