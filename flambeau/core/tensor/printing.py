"""How tensors print: PyTorch's text, character for character.

Stands on NumPy and the base layer; asks a tensor only for its shape, dtype, device, grad_fn, requires_grad and values.
Tensor.__repr__ and torch.set_printoptions use it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from flambeau.base.dtype import bool_ as boolean
from flambeau.base.dtype import complex64, complex128, float64, get_default_dtype, int64
from flambeau.base.small_floats import AS_BITS, from_bits
from flambeau.core.modes.modes import local
from flambeau.core.tensor.create import tolist_array


@dataclasses.dataclass
class PrintOptions:
    """What set_printoptions sets; sci_mode None lets the values decide."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


options = PrintOptions()

PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print.

    precision: digits after the point (default 4). threshold: number of elements above which a tensor is summarised (1000).
    edgeitems: elements shown at both ends of each summarised dimension (3). linewidth: characters per line (80).
    profile: "default", "short" or "full", set before the other arguments. sci_mode: scientific notation on or off;
    None, also when it is not given, decides by the values.
    """
    for name, value in PROFILES.get((profile or "").lower(), {}).items():
        setattr(options, name, value)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The print options as a dict that set_printoptions takes back."""
    return dataclasses.asdict(options)


@contextlib.contextmanager
def printoptions(**arguments: Any) -> Iterator[None]:
    """Change the print options for the length of a with block."""
    before = get_printoptions()
    set_printoptions(**arguments)
    try:
        yield
    finally:
        set_printoptions(**before)


def values(tensor: Any) -> np.ndarray:
    """The tensor's values as a NumPy array (a view where NumPy has the dtype), valid while the tensor lives."""
    layout = tensor._layout
    dtype = layout.dtype
    if layout.numel == 0:
        nothing = np.empty(tuple(layout.shape), dtype.numpy)
        return from_bits(nothing, dtype) if dtype in AS_BITS else nothing
    return tolist_array(tensor)


class Column:
    """The common width and notation of all numbers that are shown of one tensor."""

    def __init__(self, shown: np.ndarray):
        self.floating = shown.dtype.kind == "f"
        self.whole = True
        self.scientific = False
        self.width = 1
        if not self.floating:
            self.width = max((len(str(value)) for value in shown.ravel().tolist()), default=1)
            return
        finite = shown[np.isfinite(shown) & (shown != 0)].astype(np.float64)
        if not finite.size:
            return
        self.whole = bool(np.all(finite == np.ceil(finite)))
        smallest, largest = np.abs(finite).min(), np.abs(finite).max()
        if options.sci_mode is not None:
            self.scientific = options.sci_mode
        else:
            with np.errstate(over="ignore"):
                spread = largest / smallest
            self.scientific = bool(spread > 1000.0 or largest > 1.0e8 or (not self.whole and smallest < 1.0e-4))
        # Width leaves inf and nan out, as PyTorch does: they stick out of their column rather than widen it.
        self.width = max(len(self.number(value)) for value in finite.tolist())

    def number(self, value: float) -> str:
        """A float without padding."""
        if self.scientific:
            return f"{value:.{options.precision}e}"
        if self.whole:
            text = f"{value:.0f}"
            return text + "." if math.isfinite(value) else text
        return f"{value:.{options.precision}f}"

    def format(self, value: Any) -> str:
        """One value, padded on the left to the width of the column."""
        return (self.number(value) if self.floating else str(value)).rjust(self.width)


class Body:
    """Lays the shown numbers out in nested brackets."""

    def __init__(self, array: np.ndarray, summarise: bool):
        self.summarise = summarise
        shown = edges(array) if summarise else array
        self.imaginary: Column | None = None
        if array.dtype.kind == "c":
            self.real = Column(shown.real)
            self.imaginary = Column(shown.imag)
        else:
            self.real = Column(shown)

    def scalar(self, value: Any) -> str:
        """One number in the notation of its column."""
        if self.imaginary is None:
            return self.real.format(value)
        imaginary = self.imaginary.format(value.imag).lstrip() + "j"
        return self.real.format(value.real) + ("" if imaginary.startswith("-") else "+") + imaginary

    def vector(self, array: np.ndarray, indent: int) -> str:
        """The elements of one row, wrapped at the line width."""
        length = self.real.width + 2
        if self.imaginary is not None:
            length += self.imaginary.width + 1
        per_line = max(1, math.floor((options.linewidth - indent) / length))
        edge = options.edgeitems
        if self.summarise and len(array) > 2 * edge:
            items = [self.scalar(value) for value in array[:edge].tolist()]
            items += [" ..."]
            items += [self.scalar(value) for value in array[-edge:].tolist()]
        else:
            items = [self.scalar(value) for value in array.tolist()]
        lines = [", ".join(items[start : start + per_line]) for start in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"

    def nested(self, array: np.ndarray, indent: int) -> str:
        """An array of any rank in nested brackets; indent is the column of its first bracket."""
        if array.ndim == 0:
            return self.scalar(array.item())
        if self.summarise and not options.edgeitems:
            return "[...]"
        if array.ndim == 1:
            return self.vector(array, indent)
        edge = options.edgeitems
        if self.summarise and len(array) > 2 * edge:
            items = [self.nested(row, indent + 1) for row in array[:edge]]
            items += ["..."]
            items += [self.nested(row, indent + 1) for row in array[len(array) - edge :]]
        else:
            items = [self.nested(row, indent + 1) for row in array]
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(items) + "]"


def edges(array: np.ndarray) -> np.ndarray:
    """The elements that a summary shows, as one flat array."""
    edge = options.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            index = np.concatenate([np.arange(edge), np.arange(size - edge, size)])
            array = array.take(index, axis=axis)
    return array.ravel()


def tensor_body(tensor: Any, indent: int) -> str:
    """The brackets and numbers of a tensor whose first bracket stands at column `indent`."""
    if math.prod(tensor.shape) == 0:
        return "[]"
    array = values(tensor)
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    return Body(array, array.size > options.threshold).nested(array, indent)


def is_plain(dtype: Any) -> bool:
    """Whether a dtype goes without saying."""
    default = get_default_dtype()
    return dtype in (default, complex128 if default is float64 else complex64, int64, boolean)


def suffixes_of(tensor: Any) -> tuple[list[str], bool]:
    """What follows the numbers (device, size, dtype, gradient), and whether the numbers are shown at all."""
    suffixes = []
    dtype = tensor.dtype
    default = get_default_dtype()
    meta = tensor._layout.device.type == "meta"
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    empty = tensor._layout.numel == 0
    if meta or (len(tensor.shape) != 1 if empty else not options.edgeitems):
        suffixes.append(f"size={tuple(tensor.shape)}")
    if meta or empty:
        # No elements tell an integer from a float, so even int64 is named.
        plain = dtype is default
    else:
        plain = is_plain(dtype)
    if not plain:
        suffixes.append(f"dtype={dtype}")
    return suffixes + graph_suffixes(tensor), not meta


def graph_suffixes(tensor: Any) -> list[str]:
    """What says that a tensor is in the graph."""
    try:
        gradient = tensor.grad_fn
    except RuntimeError:  # a view that has lost its place in it
        return ["grad_fn=<Invalid>"]
    if gradient is not None:
        return [f"grad_fn=<{node_name(gradient)}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def node_name(node: Any) -> str:
    """The name of a graph node, such as AddBackward0."""
    name = node.name() if callable(getattr(node, "name", None)) else type(node).__name__
    return name.rsplit("::", maxsplit=1)[-1]


#: The text of a tensor that takes part in a function transform under way, or None (transform.printing).
inside_transforms: Callable[[Any], str | None] = None  # type: ignore[assignment]


def tensor_repr(tensor: Any, prefix: str | None = None, contents: str | None = None, inside: bool = True) -> str:
    """repr() of a tensor, as PyTorch writes it; subclasses that override calls print their name.

    contents: text in the place of the numbers; inside: whether function transforms under way show.
    """
    if local.guard and inside and contents is None and (text := inside_transforms(tensor)):
        return text
    if prefix is None:
        cls = tensor._layout.answering
        if cls is None and tensor._layout.device.stand_ins is not None:
            cls = type(tensor)
        prefix = "tensor(" if cls is None else f"{cls.__name__}("
    suffixes, shown = suffixes_of(tensor)
    indent = len(prefix)
    if contents is None:
        contents = tensor_body(tensor, indent) if shown else "..."
    text = with_suffixes(prefix + contents, suffixes, indent)
    return f"Parameter({text})" if tensor.__dict__.get("_is_param") else text


def with_suffixes(text: str, suffixes: list[str], indent: int, force_newline: bool = False) -> str:
    """The text of a tensor up to its numbers, with what follows them, on lines that are not too long.

    force_newline: the first suffix stands on a line of its own.
    """
    line = len(text) - text.rfind("\n") + 1
    parts = [text]
    for suffix in suffixes:
        if force_newline or line + len(suffix) + 2 > options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            line = indent + len(suffix)
            force_newline = False
        else:
            parts.append(", " + suffix)
            line += len(suffix) + 2
    parts.append(")")
    return "".join(parts)
