"""Attention of modules that AttnScope did not open, and of arrays: recorded, saved, reopened.

Must not import analysis, training or the window.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.models.recording.arrays import from_arrays
    from attnscope.models.recording.joining import SharedKeys
    from attnscope.models.recording.recording import Recording, record
else:
    __getattr__, __dir__ = door_of(__name__)
