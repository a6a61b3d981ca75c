"""What arguments may be. Each error begins with the argument's name and says what was found and what is expected."""
import math
import operator
import os
from numbers import Real


def whole(name, value, least, below=1 << 63):
    """A whole number, NumPy's too."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number < below:
        is_beyond = number is not None and number >= below
        raise ValueError(f'{name}: found {value!r}, expected a whole number {f"from {least} to {below - 1:,}" if is_beyond or below < 1 << 32 else f"of {least} or more"}')
    return number


def one_of(name, value, choices):
    if not any(value is each or (isinstance(value, type(each)) and value == each) for each in choices):
        raise ValueError(f'{name}: found {value!r}, expected one of {", ".join(repr(each) for each in choices)}')
    return value


def flag(name, value, others=()):
    """True or False, NumPy's too, or one of a few other values."""
    if any(value is each for each in others):
        return value
    if type(value).__name__ not in ('bool', 'bool_'):
        choices = (True, False, *others)
        raise TypeError(f'{name}: found {value!r}, expected {", ".join(repr(each) for each in choices[:-1])} or {choices[-1]!r}')
    return bool(value)


def path(name, value):
    """A path as a text."""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise TypeError(f'{name}: found {value!r}, expected a path') from None


def found_path(name, value):
    """A path as a text, which the library reads as UTF-8, of what is there; a pattern of shards stands for several."""
    text = path(name, value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f'{name}: the path {text!r} is not UTF-8') from None
    try:
        if '{' not in text:
            os.stat(text)
    except PermissionError:
        raise PermissionError(f'{name}: this user may not look at {text}') from None
    except (OSError, ValueError):
        raise FileNotFoundError(f'{name}: there is no {text}') from None
    return text


def optional_text(name, value):
    if value is None:
        return None
    try:
        return os.fsdecode(value)
    except TypeError:
        raise ValueError(f'{name}: found {value!r}, expected a text or a path') from None


def memory(name, value):
    """An amount of memory as the library reads it; nothing for None. A number has no unit: the library refuses it, with what it may mean."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f'{name}: found {value!r}, expected a text such as "35%" or "20GiB"')
    return str(value)


def seconds(name, value, most):
    """From a tenth of a second on; nothing for None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or not 0.1 <= value <= most:
        raise ValueError(f'{name}: found {value!r}, expected seconds from 0.1 to {most:,}')
    return float(value)


def numbers(name, value, count, fits=math.isfinite, kind='numbers'):
    """So many finite numbers; one stands for all of them."""
    try:
        values = list(value)
    except TypeError:
        values = [value] * count
    try:
        found = tuple(float(each) for each in values if not isinstance(each, (str, bytes)))
    except (TypeError, ValueError, OverflowError):
        found = ()
    if len(found) != count or not all(math.isfinite(each) and fits(each) for each in found):
        raise ValueError(f'{name}: found {value!r}, expected {count} {kind}' if count > 1 else f'{name}: found {value!r}, expected {kind}')
    return found
