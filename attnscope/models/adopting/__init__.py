"""Models of the Hugging Face format taken over as our own: weights, tokenizer and shape, to be trained on."""

from attnscope.models.adopting.families import FAMILIES
from attnscope.models.adopting.folder import adopt, adopted_config, foreign_folder

__all__ = ["FAMILIES", "adopt", "adopted_config", "foreign_folder"]
