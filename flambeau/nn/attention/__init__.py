"""Which implementations `scaled_dot_product_attention` may use, as PyTorch's programs select them.

There is one implementation here, which stands for every backend: a selection is checked and remembered, and numbers do
not depend on it. `nn.functional` may read `_cur_sdpa_kernel_backends()`.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, SupportsIndex

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend:
    """Backends of scaled dot product attention: constants of this class, which are no integers but convert to them."""

    __slots__ = ("value",)
    __members__: ClassVar[dict[str, SDPBackend]] = {}
    ERROR: ClassVar[SDPBackend]
    MATH: ClassVar[SDPBackend]
    FLASH_ATTENTION: ClassVar[SDPBackend]
    EFFICIENT_ATTENTION: ClassVar[SDPBackend]
    CUDNN_ATTENTION: ClassVar[SDPBackend]
    OVERRIDEABLE: ClassVar[SDPBackend]
    value: int

    def __init__(self, value: SupportsIndex) -> None:
        object.__setattr__(self, "value", operator.index(value))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"'SDPBackend' object has no attribute '{name}'")

    @property
    def name(self) -> str:
        """The name of the constant, "???" for a number that none has."""
        return next((name for name, member in self.__members__.items() if member == self), "???")

    def __int__(self) -> int:
        return self.value

    __index__ = __hash__ = __int__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SDPBackend) and self.value == other.value

    def __str__(self) -> str:
        return f"SDPBackend.{self.name}"

    def __repr__(self) -> str:
        return f"<SDPBackend.{self.name}: {self.value}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return SDPBackend, (self.value,)


for _value, _name in enumerate(
    ("ERROR", "MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "OVERRIDEABLE"), start=-1
):
    SDPBackend.__members__[_name] = SDPBackend(_value)
    setattr(SDPBackend, _name, SDPBackend.__members__[_name])


_SELECTABLE = (
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.OVERRIDEABLE,
)
_allowed: list[SDPBackend] = list(_SELECTABLE)


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The backends allowed at present, in order of preference."""
    return list(_allowed)


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict]:
    """Allow only these backends within the block; with set_priority in the order given."""
    global _allowed
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {type(backends).__name__}"
        )
    wanted = [backends] if isinstance(backends, SDPBackend) else backends
    wanted = list(dict.fromkeys(wanted))
    previous = _allowed
    _allowed = wanted if set_priority else [backend for backend in _SELECTABLE if backend in wanted]
    try:
        yield {}
    finally:
        _allowed = previous


# Further flash attention implementations can be registered under a name; activating one runs its function.
_implementations: dict[str, Callable[..., Any]] = {}
_active: tuple[str, Any] | None = None


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Any]) -> None:
    """Make `register_fn` (called at activation, may return a handle with `remove()`) known as impl."""
    _implementations[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """The registered names, sorted."""
    return sorted(_implementations)


def current_flash_attention_impl() -> str | None:
    """The activated name, or None."""
    return None if _active is None else _active[0]


def activate_flash_attention_impl(impl: str) -> None:
    """Run the registered function of a name; ValueError where there is none."""
    global _active
    if impl not in _implementations:
        raise ValueError(f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}")
    restore_flash_attention_impl(_raise_warn=False)
    _active = (impl, _implementations[impl]())


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Back to the built-in implementation."""
    global _active
    if _active is not None and hasattr(_active[1], "remove"):
        _active[1].remove()
    _active = None


def __getattr__(name: str) -> Any:
    if name == "flex_attention":  # loaded when it is asked for
        import flambeau.nn.attention.flex_attention as module

        return module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
