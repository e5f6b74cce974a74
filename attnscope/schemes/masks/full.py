"""Every query sees every key (Vaswani et al. 2017)."""

from attnscope.schemes.masks.mask import Mask


class Full(Mask):
    name, title, order = "full", "full", 0
    words, source = "every key", "Vaswani et al. 2017"
    seen = "i sees every j"
    is_full = True
