"""The Transformer, its recurrent ancestors, and the one attention function of all analyses.

Imports torch; must not import anything of trace, models, training or the window. What most others take
from it is named here; configurations, presets and the word to stop come without torch.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.nn.attention import Probe, attend, attend_by_sums, row_lse
    from attnscope.nn.block import Experts, additions_of, balances, through_reversible
    from attnscope.nn.building import build_own, build_transformer, empty_own
    from attnscope.nn.cache import KeyValueCache
    from attnscope.nn.config import ModelConfig, check_fits, count_parameters
    from attnscope.nn.config_checks import ignored_choices
    from attnscope.nn.copying import N_DIGITS, UNKNOWN_ID, copied_pieces, ids_of, joined_logits, with_ids
    from attnscope.nn.dropping import add_dropping, attend_dropping, draw_places, drop, own_dice
    from attnscope.nn.edits import *
    from attnscope.nn.embedding_and_head import memory_ids, n_memory_ids, patch_numbers, pointed
    from attnscope.nn.kept_heads import build_layout
    from attnscope.nn.layers import *
    from attnscope.nn.long_work import progress_heard, stop_if_unwanted, stoppable, tell, tell_and_wait
    from attnscope.nn.machine import *
    from attnscope.nn.masks import *
    from attnscope.nn.mixing import recur
    from attnscope.nn.own_module import cross_entropy_sum
    from attnscope.nn.pooling import *
    from attnscope.nn.presets import PRESETS, PUBLISHED
    from attnscope.nn.scores import *
    from attnscope.nn.self_masks import Segments, build_self_mask
    from attnscope.nn.spans import *
    from attnscope.nn.transformer import Transformer
else:
    __getattr__, __dir__ = door_of(__name__)
