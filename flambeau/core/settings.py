"""Switches of the whole process that programs set: determinism, precision of matrix products, repeated warnings.

Every kernel here computes float32 in float32 and gives the same result on every run, so most of these record what was asked and
change nothing. Stands on core.arguments; the namespace offers them.
"""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.core.arguments import refused


class Settings:
    """The state; `settings` is the only instance."""

    __slots__ = ("deterministic", "fill_uninitialized_memory", "matmul_precision", "warn_always", "warn_only")

    def __init__(self) -> None:
        self.deterministic = False
        self.warn_only = False
        self.fill_uninitialized_memory = True
        self.matmul_precision = "highest"
        self.warn_always = False


settings = Settings()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for operators whose results don't vary from run to run; here none varies, whatever is set."""
    if not isinstance(mode, bool):
        raise refused("_set_deterministic_algorithms", "mode", "bool", mode, 1)
    settings.deterministic, settings.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether use_deterministic_algorithms(True) was called."""
    return settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether an operator that varies would only warn."""
    return settings.deterministic and settings.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same switch as a level: 0 "default", 1 "warn", 2 "error". Raises RuntimeError for others, TypeError for other types."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    levels: dict[Any, int] = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if debug_mode not in levels:
        words = "expected one of `default`, `warn`, `error`" if isinstance(debug_mode, str) else "expected 0, 1, or 2"
        raise RuntimeError(f"invalid value of debug_mode, {words}, but got {debug_mode}")
    level = levels[debug_mode]
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2 (see set_deterministic_debug_mode)."""
    return (1 if settings.warn_only else 2) if settings.deterministic else 0


def set_float32_matmul_precision(precision: str) -> None:
    """Allow float32 products in lower precision; here they are always computed in float32. Other words warn and do nothing."""
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
            UserWarning,
            stacklevel=2,
        )
        return
    settings.matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision was given: "highest", "high" or "medium"."""
    return settings.matmul_precision


def set_warn_always(b: bool) -> None:
    """Ask for warnings at every occurrence; here Python's warning filters decide."""
    settings.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """What set_warn_always was given."""
    return settings.warn_always


def set_flush_denormal(mode: bool) -> bool:
    """Ask for denormal numbers to be flushed to zero. Returns whether that is so: False, kernels keep them."""
    return False
