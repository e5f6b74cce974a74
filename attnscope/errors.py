"""The errors that a user can act on.

Every message says what happened, what was expected and what to do. Anything else that goes wrong is
a fault of the program and rises to the crash handler with its traceback.
"""

from collections.abc import Iterable


class Stopped(BaseException):
    """A pass was cancelled because it is no longer wanted; see `nn.long_work`.

    Not an Exception: what catches every error of a library, to try another way, must not catch this.
    """


class UserError(Exception):
    """An error the user can correct: what `happened`, the value `expected`, what to do (`action`)."""

    def __init__(self, happened: str, *, expected: str = "", action: str = "") -> None:
        self.happened = _ended(happened)
        self.expected = expected
        self.action = action
        parts = [self.happened, f"Expected: {expected}." if expected else "", action]
        super().__init__(" ".join(filter(None, parts)))


class LoadError(UserError):
    """A file or folder that cannot be opened; nothing was changed by the attempt.

    `kind` is a short stable name of the fault, for tests and scripts, for instance `truncated`.
    """

    def __init__(self, happened: str, *, kind: str, expected: str = "", action: str = "") -> None:
        self.kind = kind
        super().__init__(happened, expected=expected, action=action)


class NotFiniteError(UserError):
    """A model whose output is not a number: nothing derived from it could be right."""


class SaveError(UserError):
    """A file that could not be written; the old file, if there was one, is untouched."""


class RecipeError(UserError):
    """A recipe or model configuration with an unknown key or an impossible value."""


def no_access(error: BaseException) -> UserError | None:
    """Message if the system denies access to a file or its folder; else None.

    Most of pathlib's questions raise for a path in a folder that may not be looked into.
    """
    if not isinstance(error, PermissionError) or not error.filename:
        return None
    return UserError(
        f"{error.filename} cannot be reached: {error.strerror}.",
        expected="a place that you may read and write",
        action="Change the rights of the file, or of the folder it is in, or choose another place.",
    )


def _ended(text: str) -> str:
    """A sentence with its full stop, which messages of libraries often lack."""
    text = text.rstrip()
    return text if not text or text.rstrip("\"'”’»)]}`").endswith((".", "!", "?", "…", ":")) else f"{text}."


def of_wrong_kind(value: object, name: str, expected: str, action: str = "") -> UserError:
    """The error for an argument of the wrong kind."""
    what = f"{name[:1].upper()}{name[1:]}: found an object of type {type(value).__name__}"
    return UserError(f"{what} ({str(value)[:60]!r}).", expected=expected, action=action)


def shown(text: str) -> str:
    """A foreign text as quoted in an error: the beginning of a long one."""
    return text if len(text) <= 80 else text[:79] + "…"


def meant(word: str, known: Iterable[str]) -> str:
    """A suggestion of the known word nearest to a misspelt one, and a space; empty if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word[:100], list(known), n=1, cutoff=0.7)
    return f"Did you mean {near[0]}? " if near else ""
