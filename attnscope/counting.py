"""Numbers of things in words, as every message says them."""


def counted(n: int, thing: str, things: str = "") -> str:
    """`1 token`, `2,000 tokens`: the number and its thing, `things` where an s does not make it many."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"
