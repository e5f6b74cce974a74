"""Panels on the causes of an output and on the inside of a head."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.widgets.causes.across_view import AcrossPanel
    from attnscope.widgets.causes.causes_view import CausesPanel
    from attnscope.widgets.causes.lens_view import LensPanel
else:
    __getattr__, __dir__ = door_of(__name__)
