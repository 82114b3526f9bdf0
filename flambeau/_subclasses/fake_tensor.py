"""torch._subclasses.fake_tensor: FakeTensorMode, which makes tensors without data that say they are on a real device.

Inside `with mode:` factories make fake tensors; outside as inside, operators on fake tensors give fake tensors. Stands on
core.tensor.fakes, which says what a fake tensor is, on meta_utils and on dispatcher.fake_inputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import flambeau as torch
from flambeau._subclasses.meta_utils import MetaConverter, Unconvertible
from flambeau._subclasses.symbolic.real_tensors import MetadataMismatchError, attach, copied, real_of
from flambeau._subclasses.symbolic.run import run
from flambeau._subclasses.symbolic.state import as_number, describe, env_of, kept, only_numbers, symbolic_of
from flambeau._subclasses.symbolic.unbacked import UNBACKED
from flambeau.base import device as devices
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout, Size
from flambeau.base.symbolic.expressions import product
from flambeau.core.modes import interception
from flambeau.core.modes.modes import active
from flambeau.core.modes.overrides import DisableTorchFunctionSubclass, disabled
from flambeau.core.tensor import fakes
from flambeau.core.tensor.fakes import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorDeviceMismatchError,
    UnsupportedOperatorException,
)
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.dispatcher import fake_inputs, namespaces
from flambeau.dispatcher.keys import TorchDispatchModeKey
from flambeau.overrides import TorchFunctionMode
from flambeau.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from flambeau.utils.weak import WeakIdKeyDictionary

__all__ = [
    "DataDependentOutputException", "DynamicOutputShapeException", "FakeCopyMode", "FakeTensor", "FakeTensorConverter",
    "FakeTensorDeviceMismatchError", "FakeTensorMode", "MetadataMismatchError", "UnsupportedFakeTensorException",
    "UnsupportedOperatorException", "get_plain_tensors", "is_fake", "maybe_get_fake_mode", "unset_fake_temporarily",
]  # fmt: skip


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor of a kind that has no fake. reason: which."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


_SUBCLASS = ".numpy() is not supported for tensor subclasses."


class FakeTensor(Tensor):
    """A tensor without data that says it is on a real device; operators give its results' shapes, strides and dtypes.

    Made by a FakeTensorMode. FakeTensor(mode, elem, device): like `elem`, a tensor on meta, but on `device`.
    """

    __slots__ = ()
    __torch_function__ = disabled

    def __new__(cls, fake_mode: Any, elem: Tensor, device: Any, constant: Tensor | None = None, **_: Any) -> FakeTensor:
        where = devices.device(device)
        if elem._layout.device is not devices.meta:
            raise AssertionError(f"elem.device.type must be 'meta', got {elem.device.type}")
        layout = elem._layout
        layout = Layout.of(layout.shape, layout.strides, layout.dtype, fake_mode.stand_ins.of(where), layout.flavor)
        made: Any = tensor_from(elem._storage, elem._offset, layout)
        if constant is not None:
            fakes.remember(made, constant)
        return made  # type: ignore[no-any-return]

    @property
    def fake_mode(self) -> Any:
        """The mode that the tensor belongs to."""
        return self._layout.device.stand_ins.mode  # type: ignore[union-attr]

    @property
    def fake_device(self) -> Any:
        """The device that the tensor says it is on."""
        return self._layout.device.shown

    @property
    def constant(self) -> Tensor | None:
        """The tensor with the values, if they are known: those of numbers that a program wrote down."""
        return fakes.known_value(self)

    @property
    def real_tensor(self) -> Tensor | None:
        """The tensor with data beside it, in a mode that propagates real tensors."""
        return real_of(self)

    item_memo = nonzero_memo = None

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: Any) -> FakeTensor:
        """A fake tensor like `t` in a mode."""
        return fake_mode.from_tensor(t)  # type: ignore[no-any-return]

    # ---- sizes
    @property
    def shape(self) -> Any:  # type: ignore[override]
        """Size of each dimension; torch.SymInts where they have symbols."""
        found = symbolic_of(self)
        if found is None:
            return self._layout.shape
        return tuple.__new__(Size, [as_number(found.env, e) for e in found.sizes])

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return self.shape if dim is None else self.shape[wrap_dim(dim, self._layout.ndim)]

    def stride(self, dim: int | None = None) -> Any:
        """Steps in elements from one index to the next."""
        found = symbolic_of(self)
        strides = self._layout.strides if found is None else tuple([as_number(found.env, e) for e in found.strides])
        return strides if dim is None else strides[wrap_dim(dim, self._layout.ndim)]

    def numel(self) -> Any:
        """The number of elements."""
        found = symbolic_of(self)
        if found is None:
            return self._layout.numel
        made = as_number(found.env, product(*map(found.env.replace, found.sizes)))
        if not isinstance(made, int):
            found.env.made(made, namespaces.ops.aten.sym_numel.default, (self,))
        return made

    nelement = numel

    def storage_offset(self) -> Any:
        """The place of the first element in the storage."""
        found = symbolic_of(self)
        return self._offset if found is None else as_number(found.env, found.offset)

    def __len__(self) -> int:
        if not self._layout.ndim:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    # ---- values
    def __bool__(self) -> bool:
        return super().__bool__() if real_of(self) is None else bool(self.ne(0).item())  # type: ignore[attr-defined]

    def __int__(self) -> int:
        return super().__int__() if real_of(self) is None else int(self.item())  # type: ignore[attr-defined, misc]

    def __float__(self) -> float:
        return super().__float__() if real_of(self) is None else float(self.item())  # type: ignore[attr-defined, misc]

    def tolist(self) -> Any:
        """The numbers, each by `item`: DataDependentOutputException unless they are known, or symbols stand for them."""
        if self._layout.ndim == 0:
            return self.item()  # type: ignore[attr-defined]
        return [x.tolist() for x in self.unbind(0)]  # type: ignore[attr-defined]

    def numpy(self, *, force: bool = False) -> NoReturn:
        """RuntimeError: there is no memory to share."""
        raise RuntimeError(_SUBCLASS)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise RuntimeError(_SUBCLASS)

    def data_ptr(self) -> int:
        """0: there is no memory."""
        return 0

    def share_memory_(self) -> NoReturn:
        """RuntimeError: there is no memory to share."""
        raise RuntimeError("_share_fd_: only available on CPU")


class FakeTensorConverter:
    """Makes fake tensors of tensors with data, and remembers them."""

    def __init__(self, *, copy_data: bool = False, export: bool = False):
        self.meta_converter = MetaConverter(copy_data=copy_data)
        self.export = export
        self._copies = WeakIdKeyDictionary()  # of storages, where real tensors are propagated

    @property
    def tensor_memo(self) -> Any:
        """By tensor with data, weakly: what was made of it, while that lives."""
        return self.meta_converter.tensor_memo

    def from_real_tensor(
        self,
        fake_mode: FakeTensorMode,
        t: Tensor,
        make_constant: bool = False,
        shape_env: Any = None,
        *,
        source: Any = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> FakeTensor:
        """The fake tensor like `t`. make_constant: it knows the values of `t`.

        UnsupportedFakeTensorException for sparse tensors, and those inside a function transform.
        """
        try:
            made = self.meta_converter.convert(t, fake_mode.stand_ins.of, remember=not make_constant)
        except Unconvertible as error:
            raise UnsupportedFakeTensorException(f"meta converter nyi: {error}") from None
        if make_constant:
            fakes.remember(made, t)
        elif fake_mode.propagate_real_tensors and real_of(made) is None and t._layout.device.type != "meta":
            attach(made, copied(t, self._copies))
        return made  # type: ignore[no-any-return]

    def from_meta_and_device(self, fake_mode: FakeTensorMode, t: Tensor, device: Any, **_: Any) -> FakeTensor:
        """The fake tensor on a device that is like `t`, a tensor on meta."""
        return FakeTensor(fake_mode, t, device)


class FakeTensorMode(TorchDispatchMode):
    """Inside `with mode:` factories make fake tensors, and tensors with data are refused, or made fake if
    `allow_non_fake_inputs`. `from_tensor(t)` makes one like `t`.

    shape_env: a torch.fx.experimental.symbolic_shapes.ShapeEnv, whose symbols are the sizes of tensors that from_tensor converts,
    unless static_shapes is True.
    """

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ):
        super().__init__()
        self.allow_fallback_kernels, self.allow_non_fake_inputs = allow_fallback_kernels, allow_non_fake_inputs
        self.shape_env, self.export = shape_env, export
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        #: Whether tensors with data go beside the fakes, which answer what only values tell.
        self.propagate_real_tensors = torch._functorch.config.fake_tensor_propagate_real_tensors and shape_env is not None
        #: Whether results are like those with data where a fake is wrong.
        self.goes_by_real = torch._functorch.config.generate_fake_kernels_from_real_mismatches
        if self.propagate_real_tensors:
            shape_env.fake_mode = self
        self.fake_tensor_converter = FakeTensorConverter(export=export)
        self._mode_key = TorchDispatchModeKey.FAKE
        self.stand_ins = devices.StandIns(self, FakeTensor)
        self._entered: list[tuple[Any, Any]] = []

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True: programs' own modes see calls first."""
        return True

    def __enter__(self) -> FakeTensorMode:
        self._entered.append((interception.AttentionBelow(), devices.use_stand_ins(self.stand_ins)))
        active.enter()
        return self

    def __exit__(self, *exception: object) -> None:
        active.leave()
        _, before = self._entered.pop()
        devices.use_stand_ins(before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of an overload inside the mode."""
        with self:
            return func(*args, **(kwargs or {}))

    dispatch = __torch_dispatch__

    def admitted(self, overload: Any, values: list[Any]) -> list[Any]:
        """The arguments of a program's operator inside the mode, all fake; AssertionError for tensors that mustn't come there."""
        return fake_inputs.admitted(self, overload, values)

    def is_our_fake(self, t: object) -> bool:
        """Whether it is a fake tensor of this mode."""
        return isinstance(t, FakeTensor) and t.fake_mode is self

    def from_tensor(
        self,
        tensor: Tensor,
        *,
        static_shapes: bool | None = None,
        source: Any = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> FakeTensor:
        """The fake tensor like `tensor`: shape, strides, dtype, device, requires_grad; views of one base, and what shares a
        storage, share it here. The same tensor gives the same fake.

        static_shapes: whether its sizes are numbers, as the mode says without; source: what the tensor is of the trace, by which
        its symbols are named; symbolic_context: which dimensions are dynamic.
        """
        with fake_inputs.without_mode(), DisableTorchFunctionSubclass():
            made = self.fake_tensor_converter.from_real_tensor(self, tensor)
        static = self.static_shapes if static_shapes is None else static_shapes
        own = kept(tensor)
        if own is not None and own.env is self.shape_env and kept(made) is None:  # of another mode
            describe(made, own.env, own.sizes, own.strides, own.offset)
        if not static and self.shape_env is not None and kept(made) is None and made._layout.ndim:
            sizes = self.shape_env.sizes_for(tuple(made._layout.shape), source, symbolic_context)
            describe(made, self.shape_env, sizes)
        return made

    @property
    def numbers_only(self) -> bool:
        """Whether this thread is where tensors show numbers only."""
        return only_numbers()

    def has_symbols(self, name: str, args: Any, kwargs: Any) -> bool:
        """Whether a call's arguments have symbols, or its result will."""
        return self.propagate_real_tensors or env_of([args, list(kwargs.values())]) is not None or name in UNBACKED

    def with_symbols(self, overload: Any, args: Any, kwargs: Any) -> Any:
        """What an operator gives whose arguments have symbols."""
        return run(overload, args, kwargs, self.shape_env)

    def lifted(self, tensor: Any) -> Any:
        """A fake tensor that knows the values of `tensor`, which a program wrote down."""
        if not isinstance(tensor, Tensor) or fakes.is_fake(tensor._layout):
            return tensor
        with fake_inputs.without_mode(), DisableTorchFunctionSubclass():
            return self.fake_tensor_converter.from_real_tensor(self, tensor, make_constant=tensor._layout.device.type != "meta")

    @classmethod
    def cache_info(cls) -> DispatchCacheInfo:
        """No counts: operators keep their plans themselves."""
        return DispatchCacheInfo(0, 0, {}, 0)

    @classmethod
    def cache_clear(cls) -> None:
        """Does nothing, as there is no cache of the mode's own."""


class DispatchCacheInfo(NamedTuple):
    """The state of PyTorch's cache of fake results."""

    hits: int
    misses: int
    bypasses: dict[str, int]
    size: int


class FakeCopyMode(TorchFunctionMode):
    """Inside it `copy.deepcopy` of tensors and modules with data gives fake ones of a mode."""

    def __init__(self, fake_mode: FakeTensorMode):
        self.fake_mode = fake_mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.clone:
            return self.fake_mode.from_tensor(args[0])
        if func is Tensor.__deepcopy__:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor)
            return memo[id(tensor)]
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def unset_fake_temporarily() -> Iterator[Any]:
    """Context: this thread is in no fake tensor mode. Gives the mode that it was in."""
    off = fake_inputs.without_mode()
    with off as mode:
        yield mode


def get_plain_tensors(subclass: Any, *, out: list[Any]) -> list[Any]:
    """Append to `out` the plain tensors that a tensor is made of."""
    names, _ = subclass.__tensor_flatten__()
    for name in names:
        part = getattr(subclass, name)
        if is_traceable_wrapper_subclass(part):
            get_plain_tensors(part, out=out)
        else:
            out.append(part)
    return out


def is_fake(x: object) -> bool:
    """Whether it is a fake tensor, or made of one."""
    return maybe_get_fake_mode(x) is not None


def maybe_get_fake_mode(t: object) -> FakeTensorMode | None:
    """The mode of a fake tensor, or of those that a tensor is made of; None for anything else. RuntimeError for several modes."""
    if isinstance(t, FakeTensor):
        return t.fake_mode  # type: ignore[no-any-return]
    if is_traceable_wrapper_subclass(t):
        found = {maybe_get_fake_mode(part) for part in get_plain_tensors(t, out=[])}
        if len(found) > 1:
            raise RuntimeError("mixed fake and real tensors in a tensor subclass")
        return found.pop() if found else None
    stand_ins = t._layout.device.stand_ins if isinstance(t, Tensor) else None
    return None if stand_ins is None else stand_ins.mode


def _overload(name: str) -> Any:
    name, _, overload = name.partition(".")
    namespace, _, operator = name.partition("::")
    return getattr(getattr(getattr(namespaces.ops, namespace), operator), overload or "default")


fakes.find_overload = _overload
