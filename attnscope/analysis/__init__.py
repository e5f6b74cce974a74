"""Numbers about heads: measures, detectors, alignment, scores over many texts, positions.

Must not import anything of training or the window.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.analysis.answers import differing_position, read_logits, resolve_token, telling_position
    from attnscope.analysis.attribution import Addition, attribute_logits, choose_answers, stream_parts
    from attnscope.analysis.batches import *
    from attnscope.analysis.bootstrap import RatioBootstrap, interval_of_sums, mean_interval
    from attnscope.analysis.causes import Patching, layer_logits, logit_lens, patch_map
    from attnscope.analysis.collapse import rank_collapse, residual_ratio
    from attnscope.analysis.corpus import measure_corpus, measure_parts, output_grams, output_matrices
    from attnscope.analysis.corpus_texts import *
    from attnscope.analysis.importance import *
    from attnscope.analysis.induction_score import induction_stripe, repeated_rows
    from attnscope.analysis.influence import *
    from attnscope.analysis.measures import *
    from attnscope.analysis.metrics import *
    from attnscope.analysis.model_adapter import *
    from attnscope.analysis.model_reading import ModelReading, ask_model
    from attnscope.analysis.one_head import *
    from attnscope.analysis.positions import N_VECTORS, NAMES, WIDTH, position_checks, position_tables
    from attnscope.analysis.probing import *
    from attnscope.analysis.roles import find_roles, head_card, place_of
    from attnscope.analysis.syntax import measure_syntax
    from attnscope.analysis.watched_pass import batch_of, read_text, routes_of, watched_streams
    from attnscope.analysis.word_alignment import *
    from attnscope.analysis.words import *
else:
    __getattr__, __dir__ = door_of(__name__)
