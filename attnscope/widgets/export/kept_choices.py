"""What was chosen for the last figure, to be offered for the next one."""

import dataclasses
import json

from attnscope.codec import Codec
from attnscope.figures.file_names import Format
from attnscope.figures.page import fitted
from attnscope.figures.spec import MAX_MM, FigureSpec
from attnscope.figures.style import MapStyle

_CODEC = Codec(is_strict=True, is_sparse=True)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeptChoices:
    """What a person chose for the last figure; `page` is width, height and type, where they are their own."""

    format: Format
    page: tuple[float, float, float]
    is_page_own: bool
    dpi: int
    style: MapStyle
    has_caption: bool
    has_role: bool = False

    @classmethod
    def from_text(cls, text: str) -> "KeptChoices | None":
        """What `text` gave at an earlier start; None for what does not say it, or says what cannot be."""
        try:
            kept = _CODEC.read(cls, json.loads(text))
        except (ValueError, RecursionError):
            return None
        return kept if all(0.0 < number < MAX_MM for number in kept.page) and kept.dpi > 0 else None

    @property
    def text(self) -> str:
        """For the settings."""
        return json.dumps(_CODEC.write(self))

    def on(self, spec: FigureSpec) -> FigureSpec:
        """Another figure with these choices; colours and scale are those of the window."""
        style = dataclasses.replace(
            self.style,
            colour_map=spec.style.colour_map,
            scale=spec.style.scale,
            least_weight=spec.style.least_weight,
            n_strongest=spec.style.n_strongest,
        )
        made = dataclasses.replace(spec, style=style, dpi=self.dpi)
        if not self.is_page_own:
            return made
        width_mm, height_mm, font_pt = self.page
        made = dataclasses.replace(made, width_mm=width_mm, font_pt=font_pt)
        return fitted(made) if spec.follows_width else dataclasses.replace(made, height_mm=height_mm)
