"""Families whose weights are no map of tokens on tokens: they are refused by name, with the reason."""

from attnscope.models.families.family import Family


class Nystromformer(Family):
    name, title = "nystromformer", "Nyströmformer"
    not_a_map = "its weights are approximated and never computed as a map"


class Yoso(Family):
    name, title = "yoso", "YOSO"
    not_a_map = "its weights are drawn by hashing"
