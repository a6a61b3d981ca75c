"""What becomes of an image: objects that say what to do, which the library does in its threads."""
from typing import Optional, Sequence, Tuple, Union

from ._arguments import numbers, whole

imagenet_mean = (0.485, 0.456, 0.406)
imagenet_std = (0.229, 0.224, 0.225)
beyond_crop, beyond_resize = 4097, 65_536  # Sides in pixels that are too many.


def _is_above_0(number):
    return number > 0


class _Step:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return f'{type(self).__name__}({", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())})'

    def __eq__(self, other):
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None


class RandomResizedCrop(_Step):
    """A part of the image, drawn as torchvision's RandomResizedCrop draws it, resized with antialiasing to size x size pixels.

    scale: least and most area of the part over that of the image. ratio: least and most width over height.
    """

    def __init__(self, size: int = 224, scale: Tuple[float, float] = (0.08, 1.0), ratio: Tuple[float, float] = (3 / 4, 4 / 3)):
        super().__init__(size=whole('size', size, 1, beyond_crop), scale=numbers('scale', scale, 2, _is_above_0, 'numbers above 0'),
                         ratio=numbers('ratio', ratio, 2, _is_above_0, 'numbers above 0'))


class Resize(_Step):
    """The shorter side becomes `size` pixels, with antialiasing, as torchvision's Resize. A CenterCrop follows it."""

    def __init__(self, size: int = 256):
        super().__init__(size=whole('size', size, 1, beyond_resize))


class CenterCrop(_Step):
    """The middle size x size pixels. Without a Resize before it, the shorter side becomes `size` first."""

    def __init__(self, size: int = 224):
        super().__init__(size=whole('size', size, 1, beyond_crop))


class HorizontalFlip(_Step):
    """Mirrors an image with probability p. Follows a RandomResizedCrop."""

    def __init__(self, p: float = 0.5):
        super().__init__(p=numbers('p', p, 1, lambda number: 0 <= number <= 1, 'a number from 0 to 1')[0])


class Normalize(_Step):
    """Values from 0 to 1, less the mean, over the standard deviation, each a number a channel. For dtype float32."""

    def __init__(self, mean: Sequence[float] = imagenet_mean, std: Sequence[float] = imagenet_std):
        super().__init__(mean=numbers('mean', mean, 3), std=numbers('std', std, 3, _is_above_0, 'numbers above 0'))


class Decoded(_Step):
    """Whole images, each of its own size: a batch's images are a list of arrays of uint8 with the shape (height, width, 3), whatever `layout` is."""

    def __init__(self) -> None:
        super().__init__()


class Encoded(_Step):
    """Files as they are stored: a batch's images are a list of arrays of uint8, each with a file's bytes. Nothing is decoded or checked."""

    def __init__(self) -> None:
        super().__init__()


Prep = Union[_Step, Sequence[_Step], None]
_orders = ((RandomResizedCrop,), (RandomResizedCrop, HorizontalFlip), (Resize, CenterCrop), (CenterCrop,))


def form_of(prep: Prep) -> Optional[str]:
    """How dsa_loader_open() names samples that have sizes of their own; nothing for prep that makes them alike."""
    steps = prep if isinstance(prep, (list, tuple)) else [prep]
    return {Decoded: 'decoded', Encoded: 'encoded'}.get(type(steps[0])) if len(steps) == 1 else None


def options_of(prep: Prep, dtype: str) -> dict:
    """As dsa_loader_open() has it: the keys prep, crop and resize, or samples. Raises TypeError and ValueError for steps that are none or do not follow one another."""
    if prep is None:
        prep = (RandomResizedCrop(), HorizontalFlip(), Normalize()) if dtype == 'float32' else (RandomResizedCrop(), HorizontalFlip())
    form = form_of(prep)
    if form is not None:
        if dtype != 'uint8':
            raise ValueError(f'dtype: found {dtype!r}, and samples that are {form} are of uint8')
        return {'samples': form}
    steps = list(prep) if isinstance(prep, (list, tuple)) else [prep]
    for step in steps:
        if not isinstance(step, _Step):
            raise TypeError(f'prep: found {step!r}, expected steps such as dsanalyze.RandomResizedCrop(224); a Python function on a finished batch is transform=')
    normalise: Optional[_Step] = steps.pop() if steps and isinstance(steps[-1], Normalize) else None
    kinds = tuple(type(step) for step in steps)
    if kinds not in _orders:
        expected = '; '.join(' then '.join(kind.__name__ for kind in order) for order in _orders)
        raise ValueError(f'prep: found {" then ".join(kind.__name__ for kind in kinds) or "no crop"}, expected one of: {expected}; a Normalize may come last; Decoded and Encoded stand alone')
    if normalise is not None and dtype != 'float32':
        raise ValueError(f'prep: Normalize gives float32, and dtype is {dtype}')
    by_kind = {type(step): step for step in steps}
    drawn = by_kind.get(RandomResizedCrop)
    crop = drawn or by_kind[CenterCrop]
    of = {'crop': {'size': crop.size, 'scale': list(drawn.scale) if drawn else [0.08, 1.0], 'ratio': list(drawn.ratio) if drawn else [3 / 4, 4 / 3]},
          'flip_probability': by_kind[HorizontalFlip].p if HorizontalFlip in by_kind else 0.0,
          'mean': list(normalise.mean) if normalise else [0.0] * 3, 'deviation': list(normalise.std) if normalise else [1.0] * 3}
    options = {'prep': of, 'crop': 'random_resized' if drawn else 'centre'}
    if Resize in by_kind:
        options['resize'] = by_kind[Resize].size
    return options
