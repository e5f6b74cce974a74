"""The open model and text, the view, the history and the files."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.viewmodels.session.changes import *
    from attnscope.viewmodels.session.file import *
    from attnscope.viewmodels.session.head_measures import *
    from attnscope.viewmodels.session.masking import *
    from attnscope.viewmodels.session.opening import Placeholder, Recents, open_and_explore, stage_of
    from attnscope.viewmodels.session.scripts import *
    from attnscope.viewmodels.session.state import Session, SessionChanges
    from attnscope.viewmodels.session.typed_text import *
else:
    __getattr__, __dir__ = door_of(__name__)
