"""Dispatch keys: the names under which kernels are registered, sets of them, and which are switched off in this thread.

A tensor on the CPU has the keys CPU, AutogradCPU and, for an operator that knows autocast, AutocastCPU; one on the meta
device Meta and AutogradMeta. Alias keys (Autograd, CompositeImplicitAutograd ...) stand for several. Stands on
core.modes.modes, whose switches are those of the built-in operators; used by the whole room and by torch._C.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterable, Iterator

from flambeau.base.naming import public_module
from flambeau.core.modes import modes

__all__ = [
    "AFTER_AUTOGRAD", "AUTOGRAD", "BACKENDS", "AutoDispatchBelowAutograd", "DispatchKey", "DispatchKeySet",
    "ExcludeDispatchKeyGuard", "IncludeDispatchKeyGuard", "key_of", "local",
]  # fmt: skip

#: Devices by the names of their keys, in PyTorch's order.
BACKENDS = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta".split()
_ALIAS_NAMES = [  # each for several keys
    "Autograd", "CompositeImplicitAutograd", "FuncTorchBatchedDecomposition", "CompositeImplicitAutogradNestedTensor",
    "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional",
]  # fmt: skip
_NAMES = [
    "Undefined", "Dense", *BACKENDS,
    *(f"{kind}{device}" for kind in ("Quantized", "Sparse", "SparseCsr", "NestedTensor") for device in BACKENDS),
    "FPGA", "Vulkan", "Metal", "MkldnnCPU", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "BackendSelect", "Python",
    "FuncTorchDynamicLayerBackMode", "Functionalize", "Conjugate", "Negative", "ZeroTensor", "ADInplaceOrView",
    "AutogradOther", "AutogradFunctionality", *(f"Autograd{device}" for device in BACKENDS), "AutogradNestedTensor",
    "Tracer", *(f"Autocast{device}" for device in "CPU MTIA MAIA XPU IPU HPU XLA MPS CUDA PrivateUse1".split()),
    "FuncTorchBatched", "BatchedNestedTensor", "FuncTorchVmapMode", "Batched", "VmapMode", "FuncTorchGradWrapper",
    "PythonTLSSnapshot", "FuncTorchDynamicLayerFrontMode", "PreDispatch", "PythonDispatcher", *_ALIAS_NAMES,
]  # fmt: skip

#: A name under which kernels are registered; the order is that of precedence, the last first.
DispatchKey = enum.IntEnum("DispatchKey", {name: value for value, name in enumerate(_NAMES)})  # type: ignore[misc]
DispatchKey.__module__ = public_module("_C")
DispatchKey.__str__ = lambda key: f"DispatchKey.{key.name}"  # type: ignore[assignment]


def key_of(name: str | DispatchKey) -> DispatchKey:
    """The key of that name. RuntimeError if there is none."""
    if isinstance(name, DispatchKey):
        return name
    found = DispatchKey.__members__.get(name)
    if found is None:
        raise RuntimeError(f"could not parse dispatch key: {name}")
    return found


class TorchDispatchModeKey(enum.Enum):
    """What the modes are called that belong to PyTorch's own machinery."""

    FAKE, PROXY, FUNCTIONAL = range(3)


TorchDispatchModeKey.__module__ = public_module("_C")
TorchDispatchModeKey.__name__ = TorchDispatchModeKey.__qualname__ = "_TorchDispatchModeKey"


class DispatchKeySet:
    """A set of dispatch keys; immutable."""

    __module__ = public_module("_C")
    __slots__ = ("_keys",)

    def __init__(self, keys: DispatchKey | Iterable[DispatchKey]) -> None:
        self._keys = frozenset((keys,) if isinstance(keys, DispatchKey) else keys)

    def has(self, key: DispatchKey) -> bool:
        """Whether the key is in the set."""
        return bool(self._keys) and key in self._keys

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """The set with the key."""
        return DispatchKeySet(self._keys | {key})

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """The set without the key."""
        return DispatchKeySet(self._keys - {key})

    def highestPriorityTypeId(self) -> DispatchKey:
        """The key that is asked first."""
        return max(self._keys, default=DispatchKey.Undefined)

    def raw_repr(self) -> int:
        """The set as a number, a bit for each key."""
        return sum(1 << key for key in self._keys)

    @staticmethod
    def from_raw_repr(bits: int) -> DispatchKeySet:
        """The set with that `raw_repr`."""
        return DispatchKeySet(key for key in DispatchKey if bits >> key & 1)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys - other._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __iter__(self) -> Iterator[DispatchKey]:
        return iter(sorted(self._keys))

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


AUTOGRAD = DispatchKeySet(k for k in DispatchKey if k.name.startswith("Autograd") and k.name not in _ALIAS_NAMES)
#: What is still to come once autograd has had its turn.
AFTER_AUTOGRAD = DispatchKeySet(k for k in DispatchKey if DispatchKey.Undefined < k < DispatchKey["AutogradOther"])


class _Local(threading.local):
    """What is switched off, or on, in the current thread."""

    excluded = DispatchKeySet(())
    included = DispatchKeySet(())


local = _Local()


class ExcludeDispatchKeyGuard:
    """Context: kernels registered under these keys don't answer in this thread.

    Without AutocastCPU built-in operators don't cast; without AutogradCPU they record no graph.
    """

    __module__ = public_module("_C")

    def __init__(self, keys: DispatchKeySet) -> None:
        self.keys = keys

    def __enter__(self) -> None:
        self.before = local.excluded, modes.local.grad, modes.local.autocast_enabled
        local.excluded |= self.keys
        if self.keys.has(DispatchKey["AutogradCPU"]):
            modes.local.grad = False
        if self.keys.has(DispatchKey["AutocastCPU"]):
            modes.local.autocast_enabled = modes.local.autocast_enabled | {"cpu": False}

    def __exit__(self, *exception: object) -> None:
        local.excluded, modes.local.grad, modes.local.autocast_enabled = self.before


class IncludeDispatchKeyGuard:
    """Context: these keys count as keys of every tensor in this thread."""

    __module__ = public_module("_C")

    def __init__(self, keys: DispatchKeySet | DispatchKey) -> None:
        self.keys = keys if isinstance(keys, DispatchKeySet) else DispatchKeySet(keys)

    def __enter__(self) -> None:
        self.before = local.included
        local.included = self.before | self.keys

    def __exit__(self, *exception: object) -> None:
        local.included = self.before


class AutoDispatchBelowAutograd(ExcludeDispatchKeyGuard):
    """Context: autograd kernels of operators don't answer in this thread, and operators record no graph."""

    def __init__(self) -> None:
        super().__init__(AUTOGRAD)
