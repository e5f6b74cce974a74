"""Numbers of things in words, as every message says them."""


def counted(n: int, thing: str, things: str = "") -> str:
    """`1 token`, `2,000 tokens`: the number and its thing, `things` where an s does not make it many."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"


def there_are(n: int, thing: str, things: str = "") -> str:
    """`There is 1 token`, `There are 2,000 tokens`: how many there are, as a sentence begins."""
    return f"There {'is' if n == 1 else 'are'} {counted(n, thing, things)}"


def bytes_text(n: float) -> str:
    """Bytes as people read them, in powers of ten."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n >= size:
            return f"{n / size:,.3g} {unit}" if n < 999.5 * size else f"{n / size:,.0f} {unit}"
    return f"{n:,.0f} bytes"
