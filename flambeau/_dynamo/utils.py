"""torch._dynamo.utils: questions about compiling, counters of what was compiled, and comparison of results."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import flambeau as torch
from flambeau.base.warn import first_time

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn in words that the process hasn't heard yet."""
    if first_time(msg):
        warnings.warn(msg, stacklevel=stacklevel + 1)


def is_compile_supported(device_type: Any) -> bool:
    """Whether torch.compile makes something faster on a device: not yet."""
    return False


def ifdynstaticdefault(count1: Any, count2: Any) -> Any:
    """The first where sizes are numbers until they change, the second where they are symbols at once."""
    return count1 if torch._dynamo.config.assume_static_by_default else count2


def istype(obj: Any, allowed_types: Any) -> bool:
    """Whether the class of an object is one of these: not one made of it."""
    return type(obj) in allowed_types if isinstance(allowed_types, (tuple, list, set)) else type(obj) is allowed_types


def hashable(x: Any) -> bool:
    """Whether an object has a hash."""
    try:
        hash(x)
    except (TypeError, NotImplementedError):
        return False
    return True


def disable_cache_limit() -> Any:
    """A context, or a decorator, in which functions may be compiled any number of times."""
    limits = ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit")
    return torch._dynamo.config.patch(dict.fromkeys(limits, sys.maxsize))  # type: ignore[attr-defined]


@contextlib.contextmanager
def _preserved_rng_state() -> Iterator[None]:
    before = torch.random.get_rng_state()
    try:
        yield
    finally:
        torch.random.set_rng_state(before)


def preserve_rng_state() -> Any:
    """A context after which random streams go on as if nothing had been drawn in it."""
    return _preserved_rng_state()


def detect_fake_mode(inputs: Any = None) -> Any:
    """The fake tensor mode that is on, or that the inputs belong to; None if there is none."""
    return torch._guards.detect_fake_mode(inputs)


def clone_input(x: Any, *, dtype: Any = None) -> Any:
    """A copy with the same strides, a leaf that requires grad as the tensor does."""
    with torch.no_grad():
        made = torch.empty_strided(x.size(), x.stride(), dtype=dtype or x.dtype, device=x.device).copy_(x)
    return made.requires_grad_(x.requires_grad)


def clone_inputs(example_inputs: Any) -> Any:
    """Copies of the tensors in a list, tuple or dict."""

    def clone(x: Any) -> Any:
        return clone_input(x) if isinstance(x, torch.Tensor) else x

    if isinstance(example_inputs, dict):
        return {key: clone(value) for key, value in example_inputs.items()}
    return type(example_inputs)(clone(x) for x in example_inputs)


def same(
    ref: Any,
    res: Any,
    fp64_ref: Any = None,
    cos_similarity: bool = False,
    tol: float = 1e-4,
    equal_nan: bool = False,
    exact_dtype: bool = True,
    relax_numpy_equality: bool = False,
    ignore_non_fp: bool = False,
    **_: Any,
) -> bool:
    """Whether two results are the same, tensors in them within `tol`. fp64_ref: accepted. cos_similarity: compare directions."""
    if isinstance(ref, (list, tuple)):
        options = (None, cos_similarity, tol, equal_nan, exact_dtype, relax_numpy_equality, ignore_non_fp)
        return isinstance(res, (list, tuple)) and len(ref) == len(res) and all(same(a, b, *options) for a, b in zip(ref, res))
    if isinstance(ref, dict):
        options = (None, cos_similarity, tol, equal_nan, exact_dtype, relax_numpy_equality, ignore_non_fp)
        return isinstance(res, dict) and set(ref) == set(res) and all(same(ref[k], res[k], *options) for k in ref)
    if isinstance(ref, torch.Tensor):
        if not isinstance(res, torch.Tensor) or ref.shape != res.shape or (exact_dtype and ref.dtype != res.dtype):
            return False
        if ignore_non_fp and not ref.dtype.is_floating_point:
            return True
        if ref.dtype is torch.bool:
            return bool(torch.equal(ref, res.to(torch.bool)))
        ref, res = ref.detach(), res.detach()
        if cos_similarity:
            one, other = ref.flatten().to(torch.float32), res.flatten().to(torch.float32)
            close = torch.allclose(one, other, atol=tol, rtol=tol, equal_nan=True)
            return bool(close or torch.nn.functional.cosine_similarity(one, other, dim=0, eps=1e-6) >= 0.99)
        return bool(torch.allclose(ref, res.to(ref.dtype), atol=tol, rtol=tol, equal_nan=equal_nan))
    if isinstance(ref, float) and isinstance(res, (float, int)):
        return ref == res or abs(ref - res) <= tol or (equal_nan and ref != ref and res != res)
    return type(ref) is type(res) and bool(ref == res) if ref is not None else res is None
