"""Generating the second text of a pair, token by token (Sutskever et al. 2014)."""

from attnscope.schemes.objectives.objective import ObjectiveScheme


class TranslationObjective(ObjectiveScheme):
    name, title, order = "translation", "translation", 2
    words, source = "the decoder writes the second text of a pair", "Sutskever et al. 2014"
    choices = ("guided_head", "guided_share")
    forms = ("encoder-decoder",)
    data = ("pairs",)
    over = "target token"
    presets = "Encoder and decoder: translate"
    can_guide = True
