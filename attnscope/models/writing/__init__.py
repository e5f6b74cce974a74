"""Text that a model writes: greedily, by drawing, or with beams, each token with its attention.

Must not import anything of analysis, training or the window.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.models.writing.translating import translate_texts
    from attnscope.models.writing.writer import *
    from attnscope.models.writing.written import *
else:
    __getattr__, __dir__ = door_of(__name__)
