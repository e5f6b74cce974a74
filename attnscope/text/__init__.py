"""Text and tokens: tokenizers, corpora, tasks with known right attention, sample sentences.

Nothing here imports torch or Qt.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.text.corpora import *
    from attnscope.text.examples import Example, is_held_out
    from attnscope.text.pairs import *
    from attnscope.text.pictures import *
    from attnscope.text.replay import *
    from attnscope.text.safety import *
    from attnscope.text.samples import samples_for
    from attnscope.text.tasks.reports import new_words, training_words
    from attnscope.text.tokenizer import Tokenizer, train_tokenizer
    from attnscope.text.tokenizer_tables import *
    from attnscope.text.vocabulary import *
else:
    __getattr__, __dir__ = door_of(__name__)
