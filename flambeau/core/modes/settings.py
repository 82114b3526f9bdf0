"""Switches of the whole process that programs set: determinism, precision of matrix products, repeated warnings.

Every kernel here computes float32 in float32 and gives the same result on every run, so most of these record what was asked
and change nothing. Deterministic mode does two things: fresh memory is filled (ops.creation.uninitialized), and operators
that PyTorch refuses then are refused (`alert`): a program learns here what it would learn there. Stands on
core.operator.arguments; the namespace offers them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from flambeau.base import warn
from flambeau.base.flags import WINOGRAD, flags
from flambeau.base.layout import clear_caches
from flambeau.codegen.runtime import weight_cache
from flambeau.core.operator.arguments import refused


def _as_it_is(made: Any) -> Any:
    return made


class Settings:
    """The state; `settings` is the only instance."""

    __slots__ = ("deterministic", "fill", "fill_uninitialized_memory", "fills", "matmul_precision", "warn_only", "watchers")

    def __init__(self) -> None:
        self.deterministic = False
        self.warn_only = False
        self.fill_uninitialized_memory = True
        self.matmul_precision = "highest"
        self.fills = False  # whether fresh memory is filled now
        self.fill: Callable = _as_it_is  # fills a fresh tensor; ops.creation.uninitialized sets it
        self.watchers: list[Callable] = []  # called when `fills` changes: they forget how they made fresh memory

    def update(self) -> None:
        """Work out what follows from the switches."""
        fills = self.deterministic and self.fill_uninitialized_memory
        if fills is not self.fills:
            self.fills = fills
            for forget in self.watchers:
                forget()


settings = Settings()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for operators whose results don't vary from run to run; here none varies, whatever is set. Fresh memory is filled then,
    with NaN or the largest integer, and what PyTorch has only in versions that vary is refused, or warned of with `warn_only`.
    """
    if not isinstance(mode, bool):
        raise refused("_set_deterministic_algorithms", "mode", "bool", mode, 1)
    if not isinstance(warn_only, bool):
        raise refused("_set_deterministic_algorithms", "warn_only", "bool", warn_only, None)
    settings.deterministic, settings.warn_only = bool(mode), bool(warn_only)
    settings.update()


def alert(operator: str) -> None:
    """Called by operators that PyTorch has no deterministic version of: RuntimeError in deterministic mode, or a warning."""
    if not settings.deterministic:
        return
    said = f"{operator} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
    report = (
        "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support "
        "for this operation."
    )
    if settings.warn_only:
        warn.warn(f"{said}, warn_only=True)'. You can {report}")
    else:
        raise RuntimeError(
            f"{said})'. You can turn off determinism just for this operation, or you can use the 'warn_only=True' "
            f"option, if that's acceptable for your application. You can also {report}"
        )


def set_fill_uninitialized_memory(mode: bool) -> None:
    """Whether deterministic mode fills fresh memory. RuntimeError for what is no bool."""
    if not isinstance(mode, bool):
        raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
    settings.fill_uninitialized_memory = mode
    settings.update()


def are_deterministic_algorithms_enabled() -> bool:
    """Whether use_deterministic_algorithms(True) was called."""
    return settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether an operator that varies would only warn."""
    return settings.warn_only


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
            f"{precision} is not one of 'highest', 'high', or 'medium'; the currentsetFloat32MatmulPrecision call has no effect.",
            UserWarning,
            stacklevel=2,
        )
        return
    settings.matmul_precision = precision


def set_winograd(when: str) -> None:
    """When convolutions of 3 x 3 taps and stride 1 take Winograd's form, which has 16 multiplications where 36 are: "auto"
    where that is faster, "always" where it can be, or "never". It is flambeau's own; the environment's FLAMBEAU_WINOGRAD is its
    first value.
    """
    if when not in WINOGRAD:
        raise ValueError(f"set_winograd: expected one of {', '.join(WINOGRAD)}, got {when!r}")
    flags.winograd = when
    clear_caches()  # plans are made for one form


def get_winograd() -> str:
    """What set_winograd was given: "auto", "always" or "never"."""
    return flags.winograd


def set_weight_cache(most: str | int) -> None:
    """How many bytes are kept of weights that don't change between calls, packed as products and convolutions read them: "auto"
    for an eighth of the machine's memory, "never", or a number. What is kept already is given back. It is flambeau's own; the
    environment's FLAMBEAU_WEIGHT_CACHE is its first value.
    """
    number = isinstance(most, int) and not isinstance(most, bool) and most >= 0
    if not number and most not in ("auto", "never"):
        raise ValueError(f"set_weight_cache: expected 'auto', 'never' or a number of bytes, got {most!r}")
    flags.weight_cache = most
    weight_cache.clear()
    weight_cache.set_limit()
    clear_caches()  # plans look there or don't


def get_weight_cache() -> str | int:
    """What set_weight_cache was given: "auto", "never" or a number of bytes."""
    return flags.weight_cache


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision was given: "highest", "high" or "medium"."""
    return settings.matmul_precision


def set_warn_always(b: bool) -> None:
    """Whether to warn every time of what a process is else told once."""
    if not isinstance(b, bool):
        raise refused("_set_warnAlways", "mode", "bool", b, 1)
    warn.set_always(b)


def is_warn_always_enabled() -> bool:
    """What set_warn_always was given."""
    return warn.is_always()


def set_flush_denormal(mode: bool) -> bool:
    """Ask for denormal numbers to be flushed to zero. Returns whether that is so: False, kernels keep them."""
    return False
