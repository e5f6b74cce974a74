"""The Transformer, its recurrent ancestors, and the one attention function that everything looks through.

Imports torch; must not import anything of trace, models, training or the window. What most others take
from it is named here; configurations, presets and the word to stop come without torch.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

if TYPE_CHECKING:
    from attnscope.nn.building import build_own as build_own
    from attnscope.nn.building import build_transformer as build_transformer
    from attnscope.nn.building import empty_own as empty_own
    from attnscope.nn.cache import KeyValueCache as KeyValueCache
    from attnscope.nn.config import ModelConfig as ModelConfig
    from attnscope.nn.config import check_fits as check_fits
    from attnscope.nn.config import count_parameters as count_parameters
    from attnscope.nn.config_checks import ignored_choices as ignored_choices
    from attnscope.nn.long_work import progress_heard as progress_heard
    from attnscope.nn.long_work import stop_if_unwanted as stop_if_unwanted
    from attnscope.nn.long_work import stoppable as stoppable
    from attnscope.nn.long_work import tell as tell
    from attnscope.nn.long_work import tell_and_wait as tell_and_wait
    from attnscope.nn.presets import PRESETS as PRESETS
    from attnscope.nn.presets import PUBLISHED as PUBLISHED
    from attnscope.nn.transformer import Transformer as Transformer
else:
    __getattr__ = door_of(
        __name__,
        {
            "build_own": "building",
            "empty_own": "building",
            "KeyValueCache": "cache",
            "ModelConfig": "config",
            "check_fits": "config",
            "count_parameters": "config",
            "ignored_choices": "config_checks",
            "progress_heard": "long_work",
            "stop_if_unwanted": "long_work",
            "stoppable": "long_work",
            "tell": "long_work",
            "tell_and_wait": "long_work",
            "PRESETS": "presets",
            "PUBLISHED": "presets",
            "Transformer": "transformer",
            "build_transformer": "building",
        },
    )

__all__ = [
    "PRESETS",
    "PUBLISHED",
    "KeyValueCache",
    "ModelConfig",
    "Transformer",
    "build_own",
    "build_transformer",
    "check_fits",
    "count_parameters",
    "empty_own",
    "ignored_choices",
    "progress_heard",
    "stop_if_unwanted",
    "stoppable",
    "tell",
    "tell_and_wait",
]
