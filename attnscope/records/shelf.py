"""The shelf of well-known open models."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfEntry:
    """A model on the shelf: `name` is its owner/name on the Hub, `about_mb` roughly what is downloaded.

    Where an installed Python package carries the model, `package` names it, `file` the weights inside it
    (their folder holds config.json and the tokenizer), `sha256` what the weights must be.
    """

    name: str
    title: str
    kind: str
    look_for: str
    n_parameters: int
    about_mb: int
    licence: str
    package: str = ""
    file: str = ""
    sha256: str = ""
