"""Attention of modules that AttnScope did not open, and of arrays: recorded, kept, looked at again.

Must not import analysis, training or the window.
"""

from attnscope.models.recording.arrays import from_arrays
from attnscope.models.recording.recording import Recording, record

__all__ = ["Recording", "from_arrays", "record"]
