"""A window around each query (Beltagy et al. 2020, section 3.1)."""

from attnscope.schemes.masks.mask import Mask


class Window(Mask):
    name, title, order = "window", "sliding window", 1
    words, source = "the keys at most `window` tokens back and ahead", "Beltagy et al. 2020"
    seen = "i sees |i − j| ≤ window"
    choices = ("window",)
    is_band = True
