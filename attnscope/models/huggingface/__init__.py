"""Models of Hugging Face's `transformers`, accessed through its attention interface.

Nothing here is imported, and the library neither, until such a model is opened.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.models.huggingface.anatomy import is_norm, norm_form
    from attnscope.models.huggingface.config import column_labels, licence_of, read_special_ids
    from attnscope.models.huggingface.frozen import bent_step
    from attnscope.models.huggingface.head import *
    from attnscope.models.huggingface.inputs import *
    from attnscope.models.huggingface.interface import *
    from attnscope.models.huggingface.library import *
    from attnscope.models.huggingface.network import CachedReading, cache_argument
    from attnscope.models.huggingface.pruning import *
    from attnscope.models.huggingface.rule_finding import find_rule_of
    from attnscope.models.huggingface.site_map import attach
    from attnscope.models.huggingface.tokenizer_files import HuggingFaceVocabulary, read_vocabulary
else:
    __getattr__, __dir__ = door_of(__name__)
