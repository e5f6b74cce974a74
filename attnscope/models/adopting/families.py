"""The families of foreign models that ours can be, by the model_type of config.json.

A family says what its configuration is in ours, and which of its tensors make each of ours. Equal outputs
are tested against the transformers library (tests/models/test_adopting.py).
"""

from collections.abc import Mapping

from attnscope.models.adopting.decoders import GPT2, LLAMA
from attnscope.models.adopting.encoders import BERT, DISTILBERT, ROBERTA
from attnscope.models.adopting.taking import Family

FAMILIES: Mapping[str, Family] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "distilbert": DISTILBERT,
    "gpt2": GPT2,
    "llama": LLAMA,
}
