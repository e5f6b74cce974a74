"""Families whose weights are no map of tokens on tokens: they are refused by name, with the reason."""

from attnscope.models.families.family import Family


class Reformer(Family):
    name, title = "reformer", "Reformer"
    not_a_map = "its maps are of hashed buckets, not token by token"


class Funnel(Family):
    name, title = "funnel", "Funnel Transformer"
    not_a_map = "its layers shorten the text, so that rows are not tokens"


class Nystromformer(Family):
    name, title = "nystromformer", "Nyströmformer"
    not_a_map = "its weights are approximated and never computed as a map"


class Yoso(Family):
    name, title = "yoso", "YOSO"
    not_a_map = "its weights are drawn by hashing"
