"""Opening a model to explore it: the page turns when the model is there, and stays when it cannot be opened.

Must not import Qt.
"""

from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState


def open_and_explore(session: Session, view: ViewState, source: str, device: str = "auto") -> None:
    """Load a model and turn to Explore once it is open; at once while none was open before."""
    session.opening.load(source, device)
    if session.model is None:
        view.show_page("explore")
        return

    told = session.changed

    def end() -> None:
        told.model.disconnect(explore)
        told.busy.disconnect(look)

    def explore() -> None:
        end()
        view.show_page("explore")

    def look() -> None:
        if session.opening.busy is None or session.opening.busy.source != source:
            end()  # it failed, was given up, or another is opened instead

    told.model.connect(explore, max_args=0)
    told.busy.connect(look, max_args=0)
