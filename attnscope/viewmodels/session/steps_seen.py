"""A step taken back or done again where it is not seen: what to say, with the page it belongs to.

Must not import Qt.
"""

from attnscope.viewmodels.session.history import Change, Setting
from attnscope.viewmodels.view_state import Page

_SEEN_ON: dict[str, tuple[Page, ...]] = {
    "gates": ("explore", "compare", "heads"),
    "selection": ("explore", "compare", "heads"),
    "aspect": ("explore",),
    "text": ("explore", "compare"),
    "target": ("explore", "compare"),
    "interventions": ("explore", "compare"),
    "compared": ("compare",),
}
"""Where a change of each part of a setting is seen; the first page is the one it belongs to."""


def unseen_words(verb: str, change: Change | None, page: Page) -> str:
    """A sentence for a step that changes nothing on `page`; empty where it does, or there is none.

    `verb` is what was done with the step: "Undid" or "Did again".
    """
    if change is None:
        return ""
    changed = [
        name
        for name in Setting.__dataclass_fields__
        if getattr(change.before, name) != getattr(change.after, name)
    ]
    if not changed or any(page in _SEEN_ON[name] for name in changed):
        return ""
    home = _SEEN_ON[changed[0]][0]
    return f"{verb} on the page {home.capitalize()}: {change.label.removeprefix(f'{home}: ')}."
