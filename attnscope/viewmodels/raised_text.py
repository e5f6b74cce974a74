"""Exponents as raised digits, and numbers as powers of ten. Must not import Qt."""

_RAISED = str.maketrans("-−0123456789.", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")


def raised(number: str) -> str:
    """A number in raised digits: `-0.026` is `⁻⁰·⁰²⁶`."""
    return number.translate(_RAISED)


def power_text(value: float, decimals: int = 1) -> str:
    """A number as a power of ten, short: `10⁶`, `−2·10⁻⁵`, `1.5·10¹²`."""
    mantissa, exponent = f"{value:.{decimals}e}".split("e")
    mantissa = (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa).replace("-", "−")
    power = f"10{raised(str(int(exponent)))}"
    return f"{mantissa[:-1]}{power}" if mantissa in ("1", "−1") else f"{mantissa}·{power}"
