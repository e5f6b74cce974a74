"""The files that a command is asked to write, looked at before it begins to work; types for argparse."""

import argparse
import errno
import os
from pathlib import Path

from attnscope.errors import UserError
from attnscope.figures.file_names import checked_target, is_stream


def path_of(text: str) -> Path:
    """A path that a file can have, whether it is there or not; raises ArgumentTypeError."""
    try:
        os.lstat(text)
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a valid file name") from error
    return Path(text)


def name_argument(text: str) -> str:
    """As `path_of`, but the words themselves, which may be none."""
    path_of(text)
    return text


def output_file(text: str) -> Path:
    """A file that can be written as far as one can see; raises ArgumentTypeError."""
    path = path_of(text)
    if not path.name or path.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is a folder, not the name of a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist")
    if not is_stream(path) and not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"nothing can be written into {path.parent}")
    return path


def figure_file(text: str) -> Path:
    """As `output_file`, with the ending of a figure."""
    try:
        return output_file(str(checked_target(str(path_of(text)))[0]))
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error).removesuffix(".")) from error
