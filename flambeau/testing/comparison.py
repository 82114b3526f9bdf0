"""assert_close: are two tensors, numbers or collections of them equal up to rounding; if not, how far and where.

Stands on the tensor API.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import flambeau as torch

#: (relative, absolute) tolerance by dtype; other dtypes are compared exactly.
TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
NUMBER_DTYPES = {int: torch.int64, float: torch.float64, complex: torch.complex128}


@dataclass(frozen=True)
class Options:
    """What assert_close was asked for."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    allow_subclasses: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        """Those given, or the widest that the dtypes have by default."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        found = [TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
        return max(rtol for rtol, _ in found), max(atol for _, atol in found)


class Mismatch(Exception):
    """A pair that differs. kind: the exception type to raise; item: where in the collections it lies."""

    def __init__(self, kind: type[Exception], message: str, item: tuple[Any, ...] = ()):
        super().__init__(message)
        self.kind, self.message, self.item = kind, message, item


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Assert that |actual - expected| <= atol + rtol * |expected| everywhere.

    actual, expected: tensors or what as_tensor takes, numbers, None, or sequences and mappings of these. rtol, atol: both or
    neither; the defaults follow from the dtypes (float32: 1.3e-6 and 1e-5, integers: exact). equal_nan: NaN equals NaN.
    msg: the text of the error, or a function of the generated one. Raises AssertionError where they differ, TypeError for
    inputs that can't be compared, ValueError for one tolerance without the other.
    """
    __tracebackhide__ = True
    if (rtol is None) ^ (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    options = Options(rtol, atol, equal_nan, allow_subclasses, check_device, check_dtype, check_layout, check_stride)
    try:
        compare(actual, expected, options, ())
    except Mismatch as found:
        text = found.message
        if found.item:
            text += "\n\nThe failure occurred for item " + "".join(f"[{part!r}]" for part in found.item)
        if found.kind is AssertionError and msg is not None:
            text = msg(text) if callable(msg) else msg
        error = found.kind(text)
    else:
        return
    raise error


def compare(actual: Any, expected: Any, options: Options, item: tuple[Any, ...]) -> None:
    """Raise Mismatch unless the two agree."""
    if (
        isinstance(actual, Sequence)
        and not isinstance(actual, str)
        and isinstance(expected, Sequence)
        and not isinstance(expected, str)
    ):
        if len(actual) != len(expected):
            raise Mismatch(AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", item)
        for index, (a, e) in enumerate(zip(actual, expected)):
            compare(a, e, options, (*item, index))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        missing, additional = set(expected) - set(actual), set(actual) - set(expected)
        if missing or additional:
            raise Mismatch(
                AssertionError,
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing, key=str)}\n"
                f"Additional keys in the actual mapping: {sorted(additional, key=str)}",
                item,
            )
        for key in sorted(actual, key=str):
            compare(actual[key], expected[key], options, (*item, key))
    elif actual is None or expected is None:
        if actual is not expected:
            raise Mismatch(AssertionError, f"None mismatch: {actual} is not {expected}", item)
    elif isinstance(actual, (bool, np.bool_)) and isinstance(expected, (bool, np.bool_)):
        if bool(actual) is not bool(expected):
            raise Mismatch(AssertionError, f"Booleans mismatch: {actual} is not {expected}", item)
    elif _is_number(actual) and _is_number(expected):
        _compare_numbers(actual, expected, options, item)
    else:
        _compare_tensors(actual, expected, options, item)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.number)) and not isinstance(value, bool)


def _compare_numbers(actual: Any, expected: Any, options: Options, item: tuple[Any, ...]) -> None:
    actual = actual.item() if isinstance(actual, np.number) else actual
    expected = expected.item() if isinstance(expected, np.number) else expected
    rtol, atol = options.tolerances(NUMBER_DTYPES[type(actual)], NUMBER_DTYPES[type(expected)])
    if options.check_dtype and type(actual) is not type(expected):
        raise Mismatch(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.", item)
    if actual == expected or (options.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    difference = abs(actual - expected)
    if cmath.isfinite(difference) and difference <= atol + rtol * abs(expected):
        return
    raise Mismatch(AssertionError, _scalar_message(actual, expected, rtol, atol), item)


def _scalar_message(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    equality = rtol == 0 and atol == 0
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else abs(absolute / expected)
    return (
        f"Scalars are not {'equal' if equality else 'close'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {absolute}{'' if equality else f' (up to {atol} allowed)'}\n"
        f"Relative difference: {relative}{'' if equality else f' (up to {rtol} allowed)'}"
    )


def _as_tensor(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return torch.as_tensor(value)
    raise TypeError


def _compare_tensors(actual: Any, expected: Any, options: Options, item: tuple[Any, ...]) -> None:
    sparse = getattr(actual, "layout", torch.strided) is not torch.strided
    related = (
        type(actual) is type(expected)
        or sparse
        or (options.allow_subclasses and (isinstance(actual, type(expected)) or isinstance(expected, type(actual))))
    )
    try:
        a, e = _as_tensor(actual), _as_tensor(expected)
    except TypeError:
        related = False
    if not related:
        raise Mismatch(
            TypeError, f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.", item
        )

    def attribute(name: str, first: Any, second: Any) -> None:
        if first != second:
            raise Mismatch(AssertionError, f"The values for attribute '{name}' do not match: {first} != {second}.", item)

    a, e = a.detach(), e.detach()
    attribute("shape", a.shape, e.shape)
    attribute("is_quantized", a.is_quantized, e.is_quantized)
    if options.check_layout:
        attribute("layout", a.layout, e.layout)
    if options.check_device:
        attribute("device", a.device, e.device)
    if options.check_dtype:
        attribute("dtype", a.dtype, e.dtype)
    if options.check_stride:
        attribute("stride()", a.stride(), e.stride())
    if a.device.type == "meta" or e.device.type == "meta":
        return
    rtol, atol = options.tolerances(a.dtype, e.dtype)
    if a.layout is not e.layout:
        a, e = a.to_dense(), e.to_dense()
    for title, part_a, part_e in _parts(a, e, item):
        indices = title.endswith("indices")
        _compare_elements(part_a, part_e, 0.0 if indices else rtol, 0.0 if indices else atol, options, title, item)


def _parts(a: Any, e: Any, item: tuple[Any, ...]) -> list[tuple[str, Any, Any]]:
    """What is compared of two tensors of one layout: of sparse ones their places and values. Mismatch of their numbers."""
    if a.layout is torch.strided:
        return [("Tensor-likes", a, e)]
    name = str(a.layout).rpartition("_")[2].upper()
    if a._nnz() != e._nnz():
        words = f"The number of specified values in sparse {name} tensors does not match: {a._nnz()} != {e._nnz()}"
        raise Mismatch(AssertionError, words, item)
    if a.is_sparse:
        return [("Sparse COO indices", a._indices(), e._indices()), ("Sparse COO values", a._values(), e._values())]
    by_row = a.layout in (torch.sparse_csr, torch.sparse_bsr)
    names = ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
    return [(f"Sparse {name} {part}", getattr(a, part)(), getattr(e, part)()) for part in (*names, "values")]


def _compare_elements(a: Any, e: Any, rtol: float, atol: float, options: Options, title: str, item: tuple[Any, ...]) -> None:
    if a.dtype is not e.dtype:
        common = torch.promote_types(a.dtype, e.dtype)
        a, e = a.to(common), e.to(common)
    if not (a.dtype.is_floating_point or a.dtype.is_complex or a.dtype is torch.bool):
        a, e = a.to(torch.int64), e.to(torch.int64)
    if a.dtype.is_floating_point and a.dtype.itemsize == 1:  # float8: compared exactly, but not by its own operators
        a, e = a.to(torch.float32), e.to(torch.float32)
    matches = torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if bool(matches.all()):
        return
    if not a.ndim:
        message = _scalar_message(a.item(), e.item(), rtol, atol)
    else:
        message = _tensor_message(a, e, ~matches, rtol, atol, title)
    raise Mismatch(AssertionError, message, item)


def _tensor_message(actual: Any, expected: Any, differs: Any, rtol: float, atol: float, title: str = "Tensor-likes") -> str:
    equality = rtol == 0 and atol == 0
    count, total = int(differs.sum()), differs.numel()
    if actual.dtype is torch.bool:
        actual, expected = actual.to(torch.int64), expected.to(torch.int64)
    absolute = (actual - expected).abs()
    relative = absolute / expected.abs()

    def greatest(values: Any) -> tuple[Any, tuple[int, ...]]:
        flat = torch.where(differs, values, torch.zeros_like(values)).flatten()
        place = int(flat.argmax())
        return flat[place].item(), tuple(int(i) for i in np.unravel_index(place, tuple(values.shape)))

    (difference, where), (ratio, ratio_where) = greatest(absolute), greatest(relative)
    return (
        f"{title} are not {'equal' if equality else 'close'}!\n\n"
        f"Mismatched elements: {count} / {total} ({count / total:.1%})\n"
        f"Greatest absolute difference: {difference} at index {where}{'' if equality else f' (up to {atol} allowed)'}\n"
        f"Greatest relative difference: {ratio} at index {ratio_where}{'' if equality else f' (up to {rtol} allowed)'}"
    )
