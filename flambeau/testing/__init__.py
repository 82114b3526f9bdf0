"""torch.testing: comparing tensors with errors that say where they differ, and making random ones."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.testing.comparison import assert_close
from flambeau.testing.creation import make_tensor

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]


def __getattr__(name: str) -> Any:
    if name == "FileCheck":
        import flambeau as torch

        return torch.FileCheck  # which is the compiler's
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True, msg: str = ""
) -> None:
    """The older form of assert_close: compares values only. Warns that it is deprecated."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please use "
        "`torch.testing.assert_close()` instead. You can find detailed upgrade instructions in "
        "https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
        stacklevel=2,
    )
    import flambeau as torch

    actual = actual if isinstance(actual, torch.Tensor) else torch.tensor(actual)
    expected = expected if isinstance(expected, torch.Tensor) else torch.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        tolerances = {torch.float16: (1e-3, 1e-3), torch.float32: (1e-4, 1e-5), torch.float64: (1e-5, 1e-8)}
        pairs = [tolerances.get(x.dtype, (0.0, 0.0)) for x in (actual, expected)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )
