"""Copies and conversions: copy_, clone, contiguous, to and its short forms, fill_ and zero_.

Stands on core.operator.pointwise: a copy is the identity as a pointwise operator whose result has another dtype, order or home.
"""

from __future__ import annotations

import builtins
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base import geometry, memory_order, scalar_range
from flambeau.base.device import COMPUTING, beside, require
from flambeau.base.device import device as Device
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import (
    Layout,
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
    register_cache,
)
from flambeau.base.tracebacks import filter_traceback
from flambeau.base.warn import warn_once
from flambeau.codegen.plan import Plan, elementwise
from flambeau.codegen.targets import lowered
from flambeau.core.autograd import inplace
from flambeau.core.autograd.node import rename
from flambeau.core.modes import modes, overrides
from flambeau.core.operator.arguments import no_combination, refused
from flambeau.core.operator.facets import CONSTANT, LINEAR, described
from flambeau.core.operator.pointwise import NUMBERS, RELEASE_FROM, Pointwise, call, like_first, needs_graph, overload, record
from flambeau.core.operator.publishing import NAMESPACE, public
from flambeau.core.tensor import lazy_conjugate as pending
from flambeau.core.tensor.create import CPU, make_tensor
from flambeau.core.tensor.fakes import refuse_mixing
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ir.loops import Loop, Nest, element, number
from flambeau.ir.scalar import cast, compute_dtype


class Copy(Pointwise):
    """The identity; its result may be of any dtype."""

    converts = True
    order = staticmethod(like_first)

    def plan(self, operands: Any, numbers: Any, statics: Any, out: Any) -> Any:
        """A launcher; the first that takes complex numbers to real ones warns."""
        result = self.dtypes(operands, statics)[1] if out is None else out._layout.dtype
        if operands[0]._layout.dtype.is_complex and not result.is_complex and result is not dtypes.bool_:
            warn_once("Casting complex values to real discards the imaginary part")
        return super().plan(operands, numbers, statics, out)

    def _nest(
        self,
        operands: Any,
        numbers: Any,
        statics: Any,
        computation: DType,
        result: DType,
        stored: DType,
        pending: tuple[int, ...] = (),
    ) -> Nest:
        """The loop nest; what is computed in float32 moves as integers where it isn't converted: a NaN keeps its bits."""
        bits = _AS_INTEGERS.get(stored.itemsize) if stored is operands[0]._layout.dtype and not pending else None
        if bits is None or stored.is_complex or compute_dtype(stored) is stored:
            return super()._nest(operands, numbers, statics, computation, result, stored, pending)
        return Nest(self.name, (bits,), (bits,), (Loop((), ((0, element(0, bits)),)),))


_AS_INTEGERS = {1: dtypes.uint8, 2: dtypes.uint16}
COPY = Copy("copy", lambda source: source, ["source"], node="Copy")
CLONE = Copy("clone", lambda input: input, ["input"], node="Clone")
_conversions: dict[DType, Copy] = {}
_fills: dict[Any, Any] = register_cache({})
_preserved: dict[Layout, Layout] = register_cache({})
_formats: dict[Any, Any] = register_cache({})  # plans of conversions by layout, dtype and memory format
_reordered: dict[Any, Any] = register_cache({})  # those of to(memory_format=...), by layout and format
_copies: dict[Any, Any] = register_cache({})  # checked plans of copy_ by the layouts of target and source


class CopyInto(Pointwise):
    """copy_ as a step of the graph: nothing reaches the overwritten tensor, the source gets the gradient."""

    converts = True


COPY_INTO = CopyInto("copy_into", lambda self, source: source, ["self", "source"], node="Copy")
COPY_INTO.node_class.__name__ = "CopyBackwards"


def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Write the elements of `other` (broadcast, converted) into this tensor. Returns the tensor.

    Raises RuntimeError if the shapes don't fit, or when a leaf that requires grad is written to in grad mode.
    """
    if self.__class__ not in overrides.PLAIN or other.__class__ not in overrides.PLAIN:
        if overrides.any_override([self, other]):
            return overrides.dispatch(copy_, [self, other], {})
    if non_blocking.__class__ is not bool:
        raise refused("copy_", "non_blocking", "bool", non_blocking, 2)
    if not isinstance(other, Tensor):
        if not isinstance(other, (bool, int, float, complex)):
            raise refused("copy_", "other", "Tensor", other, 1)
        other = make_tensor(
            other, dtypes.complex128 if isinstance(other, complex) else dtypes.float64 if isinstance(other, float) else None
        )
    elif self._layout.device is not other._layout.device:
        refuse_mixing(self._layout.device, other._layout.device)
    if (self._node is not None or other._node is not None) and needs_graph((self, other)):
        inplace.check(self)
        copy_raw(self, other)
        dtype = self._layout.dtype
        if not (dtype.is_floating_point or dtype.is_complex):  # such elements have no derivatives
            return self
        inplace.rebase(self, record(COPY_INTO, self, (self, other), (), ()))
        return self
    return copy_raw(self, other)


def copy_raw(self: Tensor, src: Tensor) -> Tensor:
    """copy_ without a graph."""
    try:
        launch = _copies.get((self._layout, src._layout))
        if launch is not None and src._storage is not self._storage:
            launch(self, src)
            return self
        if self._layout.device.type == "meta" or src._layout.device.type == "meta":
            if self._layout.device.type != "meta":
                raise NotImplementedError("Cannot copy out of meta tensor; no data!")
            return self
        if src._storage is self._storage:
            mine, theirs = self._layout, src._layout
            if mine.in_memory() is theirs.in_memory() and src._offset == self._offset:
                if mine.pending != theirs.pending and not memory_order.overlaps_itself(mine.shape, mine.strides):
                    COPY.compute((src,), (), (), self)  # element by element in its place
                return self
            if mine.dtype is theirs.dtype and memory_order.has_overlap(
                (mine.shape, mine.strides, self._offset), (theirs.shape, theirs.strides, src._offset)
            ):
                raise RuntimeError(memory_order.OVERLAPS_INPUT)
            low, high = self._offset, self._offset + memory_order.extent(mine.shape, mine.strides)
            if src._offset < high and low < src._offset + memory_order.extent(theirs.shape, theirs.strides):
                src = clone_raw(src)
        if memory_order.overlaps_itself(self._layout.shape, self._layout.strides):
            raise RuntimeError(memory_order.OVERLAPS_ITSELF)
        given = src._layout
        if given.shape != self._layout.shape:
            shape = self._layout.shape
            together = tuple(geometry.broadcast(shape, given.shape))
            if together != tuple(shape):
                raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(together)}")
            strides = memory_order.broadcast_strides(given.shape, given.strides, shape)
            layout = Layout.of(shape, strides, given.dtype, given.device).with_pending(given.pending)
            src = tensor_from(src._storage, src._offset, layout)
        COPY.compute((src,), (), (), self)
        launch = COPY.other_plans.get((src._layout, self._layout))
        if launch is not None:
            _copies[self._layout, given] = launch
        return self
    except Exception as error:
        filter_traceback(error)
        raise


def clone_raw(input: Tensor) -> Tensor:
    """A copy without a graph, in the same order of dimensions."""
    return CLONE.compute((input,))


@described(jvp=LINEAR)
def clone(input: Tensor, *, memory_format: memory_format | None = preserve_format) -> Tensor:
    """A copy of `input` that passes gradients on. Strides are kept if dense; `memory_format` may order them otherwise."""
    if input.__class__ not in overrides.PLAIN and overrides.any_override([input]):
        return overrides.dispatch(clone, [input], {} if memory_format is preserve_format else {"memory_format": memory_format})
    if input._layout.device.type == "meta":
        return _only_layout(CLONE, input, layout_in_format(input._layout, memory_format or preserve_format))
    if memory_format is preserve_format or (memory_format is contiguous_format and input._layout.dense() is input._layout):
        launch = CLONE.other_plans.get((input._layout, None))
        if launch is None:
            return call(CLONE, (input,))
        out = launch(None, input)
        if input._node is not None and modes.local.grad:
            out._node = record(CLONE, out, (input,), (), ())
        return out
    target = layout_in_format(input._layout, memory_format or preserve_format)  # None is as good as none given
    launch = COPY.other_plans.get((input._layout, target))
    if launch is None:
        out = empty_layout(target)
        COPY.compute((input,), (), (), out)
        out._storage.writes = 0
    else:
        out = launch(None, input)
    if input._node is not None and needs_graph((input,)):
        out._node = record(CLONE, out, (input,), (), ())
    return out


def layout_in_format(layout: Layout, wanted: memory_format) -> Layout:
    """A dense layout of the same shape, dtype and device in a memory format."""
    if wanted is preserve_format:
        found = _preserved.get(layout)
        if found is None:
            strides = memory_order.preserved_strides(layout.shape, layout.strides)
            found = _preserved[layout] = Layout.of(layout.shape, strides, layout.dtype, layout.device)
        return found
    if wanted is contiguous_format:
        return Layout.contiguous(layout.shape, layout.dtype, layout.device)
    rank = 4 if wanted is channels_last else 5
    if wanted not in (channels_last, channels_last_3d) or layout.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {'channels_last' if rank == 4 else 'channels_last_3d'} format")
    return Layout.of(layout.shape, memory_order.channels_last_strides(layout.shape), layout.dtype, layout.device)


@public(namespace=False, jvp=LINEAR)
def contiguous(self: Tensor, *, memory_format: memory_format = contiguous_format) -> Tensor:
    """This tensor if its elements lie in C order (or in `memory_format`), else a copy in that order."""
    layout = self._layout
    if memory_format is contiguous_format:
        return self if layout.is_contiguous else clone(self, memory_format=contiguous_format)
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return self if is_contiguous(self, memory_format=memory_format) else clone(self, memory_format=memory_format)


@public(namespace=False)
def is_contiguous(self: Tensor, *, memory_format: memory_format = contiguous_format) -> bool:
    """Whether the elements lie in the order of `memory_format` without gaps."""
    layout = self._layout
    if memory_format is contiguous_format:
        return layout.is_contiguous
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if memory_format is None:
        raise TypeError("is_contiguous(): argument 'memory_format' must be torch.memory_format, not NoneType")
    ndim = 4 if memory_format is channels_last else 5
    return layout.ndim == ndim and memory_order.is_channels_last(layout.shape, layout.strides)


def suggested_format(layout: Layout) -> memory_format:
    """The memory format that a tensor is taken to be in: C order unless its strides say channels_last."""
    if memory_order.suggests_channels_last(layout.shape, layout.strides):
        return channels_last if layout.ndim == 4 else channels_last_3d
    return contiguous_format


def _only_layout(operator: Copy, input: Tensor, layout: Layout) -> Tensor:
    """What a copy to the meta device or on it is: a layout; recorded."""
    out = empty_layout(layout)
    if needs_graph((input,)) and (layout.dtype.is_floating_point or layout.dtype.is_complex):
        out._node = record(operator, out, (input,), (), ())
    return out


def _conversion(dtype: DType) -> Copy:
    operator = _conversions.get(dtype)
    if operator is None:
        operator = Copy("to_copy", lambda input: input, ["input"], kind=lambda common: (common, dtype), node="ToCopy")
        _conversions[dtype] = operator
    return operator


def convert(input: Tensor, dtype: DType, wanted: memory_format = preserve_format) -> Tensor:
    """A copy as another dtype, in the same order or in a memory format; recorded."""
    operator = _conversion(dtype)
    if input._layout.device.type == "meta":
        return _only_layout(operator, input, layout_in_format(input._layout, wanted).with_dtype(dtype))
    if wanted is not preserve_format:
        launch = _formats.get((input._layout, dtype, wanted))
        if launch is None:
            layout = layout_in_format(input._layout, wanted).with_dtype(dtype)
            out = empty_layout(layout)
            operator.compute((input,), (), (), out)
            out._storage.writes = 0
            launch = operator.other_plans.get((input._layout, layout))
            if launch is not None:
                _formats[input._layout, dtype, wanted] = launch
        else:
            out = launch(None, input)
        if needs_graph((input,)) and (dtype.is_floating_point or dtype.is_complex):
            out._node = record(operator, out, (input,), (), ())
        return out
    launch = operator.other_plans.get((input._layout, None))
    if launch is None:
        return call(operator, (input,)) if dtype.is_floating_point or dtype.is_complex else operator.compute((input,))
    out = launch(None, input)
    if input._node is not None and modes.local.grad and (dtype.is_floating_point or dtype.is_complex):
        out._node = record(operator, out, (input,), (), ())
    return out


def move(input: Tensor, device: Device, dtype: DType | None, wanted: memory_format = preserve_format) -> Tensor:
    """A copy on the meta device: a layout; recorded. dtype: None for the tensor's own."""
    layout = layout_in_format(input._layout, wanted).with_dtype(dtype or input._layout.dtype)
    return _only_layout(_conversion(layout.dtype), input, layout.with_device(device))


@described(jvp=LINEAR)
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """to(dtype), to(device), to(device, dtype), to(other): this tensor converted, or itself when there is nothing to do.

    Keywords: dtype, device, non_blocking, copy (always a copy), memory_format.
    """
    layout = self._layout
    if len(args) == 1 and not kwargs and self.__class__ in overrides.PLAIN:  # nothing to do, most often
        only = args[0]
        if only is layout.dtype or only is layout.device or (only.__class__ is str and only == layout.device.type == "cpu"):
            return self
    if not args and len(kwargs) == 1 and self.__class__ in overrides.PLAIN:  # to(memory_format=...), seen before
        launch = _reordered.get((layout, kwargs.get("memory_format")))
        if launch is not None and not (self._node is not None and modes.local.grad):
            return launch(None, self)
    device, dtype, copy, wanted = to_arguments(args, kwargs)
    if self.__class__ not in overrides.PLAIN and overrides.any_override([self]):
        return overrides.dispatch(to, [self, *args], kwargs)
    if device is not None:
        device = beside(device, layout.device)
    if device is not None and device != layout.device:
        if device.type == "meta":
            return move(self, device, dtype, wanted)
        require(device)
        if layout.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if dtype is not None and dtype is not layout.dtype:
        return convert(self, dtype, wanted)
    if copy or (wanted is not preserve_format and wanted is not suggested_format(layout)):
        made = convert(self, layout.dtype, wanted)
        launch = None if copy else _formats.get((layout, layout.dtype, wanted))
        if launch is not None:
            _reordered[layout, wanted] = launch
        return made
    return self


def to_arguments(args: tuple, kwargs: dict) -> tuple[Device | None, DType | None, bool, memory_format]:
    """(device, dtype, copy, memory_format) of a call of `to`."""
    try:
        device = dtype = None
        copy = False
        wanted: memory_format = preserve_format
        rest = [dtypes.asked_for(given) for given in args]
        if rest:
            first = rest.pop(0)
            if isinstance(first, DType):
                dtype = first
            elif isinstance(first, Tensor):
                device, dtype = first._layout.device, first._layout.dtype
            elif isinstance(first, (str, Device, int)):
                device = Device(first) if not isinstance(first, Device) else first
                if rest and (isinstance(rest[0], DType) or rest[0] is None):
                    dtype = rest.pop(0)
            elif first is None:
                dtype = rest.pop(0) if rest and isinstance(rest[0], DType) else None
            else:
                raise no_combination("to", (first,))
        if rest and not isinstance(rest.pop(0), bool):  # non_blocking
            raise no_combination("to", args, kwargs)
        if rest:
            copy = bool(rest.pop(0))
        for name, value in kwargs.items():
            if name == "dtype":
                dtype = dtypes.asked_for(value)
            elif name == "device":
                device = None if value is None else value if isinstance(value, Device) else Device(value)
            elif name == "copy":
                copy = bool(value)
            elif name == "other":
                device, dtype = value._layout.device, value._layout.dtype
            elif name == "memory_format":
                wanted = value or preserve_format
            elif name != "non_blocking":
                raise TypeError(
                    f"to() received an invalid combination of arguments - got an unexpected keyword argument '{name}'"
                )
        return device, dtype, copy, wanted
    except Exception as error:
        filter_traceback(error)
        raise


def _short(name: str, dtype: DType) -> Any:
    def short(self: Tensor, *, memory_format: memory_format = preserve_format) -> Tensor:
        if self._layout.dtype is dtype and memory_format is preserve_format and self.__class__ in overrides.PLAIN:
            return self
        return to(self, dtype, memory_format=memory_format)

    short.__name__ = short.__qualname__ = name
    short.__doc__ = f"to({dtype})."
    return short


for _name, _dtype in (
    ("float", dtypes.float32),
    ("double", dtypes.float64),
    ("half", dtypes.float16),
    ("bfloat16", dtypes.bfloat16),
    ("int", dtypes.int32),
    ("long", dtypes.int64),
    ("short", dtypes.int16),
    ("char", dtypes.int8),
    ("byte", dtypes.uint8),
    ("bool", dtypes.bool_),
    ("cfloat", dtypes.complex64),
    ("cdouble", dtypes.complex128),
    ("chalf", dtypes.complex32),
):
    setattr(Tensor, _name, described(jvp=LINEAR)(_short(_name, _dtype)))


@described(jvp=LINEAR)
def cpu(self: Tensor, *, memory_format: memory_format = preserve_format) -> Tensor:
    """to("cpu")."""
    if self._layout.device is CPU and memory_format is preserve_format and self.__class__ in overrides.PLAIN:
        return self
    return to(self, "cpu", memory_format=memory_format)


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: memory_format = preserve_format) -> Tensor:
    """to("cuda"), which this build does not have: AssertionError, but for fake tensors."""
    where = Device("cuda", device) if device.__class__ is int else Device("cuda" if device is None else device)
    return to(self, where, memory_format=memory_format)


@described(jvp=LINEAR)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor with the dtype of `other`, where `other` is."""
    if not isinstance(other, Tensor):
        raise refused("type_as", "other", "Tensor", other, 1)
    layout = other._layout
    return to(self, layout.dtype) if layout.device is self._layout.device else to(self, layout.device, layout.dtype)


@described(jvp=LINEAR)
def type(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The name of the old tensor type ("torch.FloatTensor"), or a conversion to `dtype` (a dtype or such a name)."""
    if dtype is None:
        kind = self._layout.device.shown.type
        return f"torch.{'' if kind in COMPUTING else f'{kind}.'}{self._layout.dtype.scalar_name}Tensor"
    if dtype is Tensor or dtype == "torch.Tensor":  # the type that Tensor(...) makes
        dtype = dtypes.get_default_dtype()
    if isinstance(dtype, str):
        found = next((d for d in dtypes.all_dtypes().values() if f"torch.{d.scalar_name}Tensor" == dtype), None)
        if found is None:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = found
    if not isinstance(dtype, DType):
        found = None if isinstance(dtype, Tensor) else getattr(dtype, "dtype", None)
        if not isinstance(found, DType):
            if isinstance(dtype, builtins.type):
                raise ValueError(f"invalid type: '{dtype.__name__}'")
            raise TypeError("dtype must be a type, str, or dtype object")
        dtype = found
    return to(self, dtype)


class Fill(Pointwise):
    """fill_ and zero_ as steps of the graph."""

    converts = True


FILL = Fill("fill", lambda self, value: value, ["self", "value"], node=overload("Fill", "Backward3", "Backward2"))
ZERO = Fill("zero", lambda self: 0, ["self"], node="Zero")


def specialize_fill(layout: Layout, value: Any) -> Any:
    """The plan that fills a tensor of a layout with a number of this one's class; it is kept."""
    found = _fills.get((layout, value.__class__))
    if found is not None:
        return found
    kind = {float: "f", complex: "c"}.get(value.__class__, "i")
    dtype = compute_dtype(layout.dtype)
    if kind == "c" and not layout.dtype.is_complex:
        return lambda out, value: _fill_element(out, layout, value)
    nest = Nest("fill", (layout.dtype,), (), (Loop((), ((0, cast(number(0, dtype), dtype)),)),), ((kind, dtype),))
    step = elementwise(nest, layout.shape, [layout.strides])
    launch = lowered(Plan([step], [layout], (), kind, release=layout.numel >= RELEASE_FROM))
    if not scalar_range.always_fits(value.__class__, layout.dtype):
        launch = _checked(launch, layout)
    _fills[layout, value.__class__] = launch
    return launch


def _checked(launch: Any, layout: Layout) -> Any:
    """A launcher of a fill that refuses numbers which can't be elements."""

    def fill(out: Any, value: Any) -> Any:
        element = scalar_range.as_element(value, layout.dtype)
        return launch(out, element) if element.__class__ is value.__class__ else fill_or_make(out, layout, element)

    return fill


def _fill_element(out: Any, layout: Layout, value: Any) -> Any:
    """A fill with a number that isn't what the kernel takes: a complex one for real elements, or an int past 2**63."""
    return fill_or_make(out, layout, scalar_range.as_element(value, layout.dtype))


def fill_or_make(out: Tensor | None, layout: Layout, value: Any) -> Tensor:
    """`out` of that layout, or a fresh tensor, with `value` everywhere."""
    try:
        launch = _fills.get((layout, value.__class__)) or specialize_fill(layout, value)
        try:
            return launch(out, value)
        except OverflowError:
            if value.__class__ is not int:
                raise
            return _fill_element(out, layout, value)
    except Exception as error:
        filter_traceback(error)
        raise


def fill_raw(self: Tensor, value: Any) -> Tensor:
    """Write one number everywhere; no graph."""
    layout = self._layout
    if layout.device.type == "meta":
        return self
    if layout.pending:
        if value.__class__ is complex and not layout.dtype.is_complex:
            scalar_range.check(value, layout.dtype)
        fill_raw(tensor_from(self._storage, self._offset, layout.in_memory()), pending.meant(value, layout.pending))
        return self
    return fill_or_make(self, layout, value)


def filled(layout: Layout, value: Any) -> Tensor:
    """A fresh tensor with `value` everywhere."""
    try:
        return empty_layout(layout) if layout.device.type == "meta" else fill_or_make(None, layout, value)
    except Exception as error:
        filter_traceback(error)
        raise


@described(jvp=CONSTANT)
def fill_(self: Tensor, value: Any) -> Tensor:
    """Write `value` (a number or a zero-dim tensor) into every element. Returns the tensor."""
    if isinstance(value, Tensor):
        if value._layout.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value._layout.ndim} dimensions."
            )
        if value._layout.answering is not None:
            return overrides.dispatch(Tensor.fill_, (self, value), {})
        if needs_graph((self, value)):
            inplace.check(self)
            copy_raw(self, value)
            inplace.rebase(self, record(FILL, self, (self, value), (), ()))
            return self
        return copy_raw(self, value)
    if value.__class__ not in NUMBERS:
        if not hasattr(value, "item"):
            raise no_combination("fill_", (value,))
        value = value.item()
    if self._node is not None and modes.local.grad:
        inplace.check(self)
        fill_raw(self, value)
        inplace.rebase(self, record(FILL, self, (self, value), (), ()))
        return self
    return fill_raw(self, value)


@described(jvp=CONSTANT)
def zero_(self: Tensor) -> Tensor:
    """Write zeros. Returns the tensor."""
    if self._node is None or not modes.local.grad:
        return fill_(self, 0)
    inplace.check(self)
    fill_raw(self, 0)
    inplace.rebase(self, record(ZERO, self, (self,), (), ()))
    return self


def fill(input: Tensor, value: Any) -> Tensor:
    """A copy of the shape of `input` filled with `value`."""
    made = fill_(clone(input), value)
    if made._node is not None:
        rename(made._node, "FillBackward1" if isinstance(value, Tensor) else "FillBackward0")
    return made


pending.register(clone_raw, copy_raw)
for _function in (copy_, clone, to, cpu, cuda, type_as, type, fill_, zero_):
    setattr(Tensor, _function.__name__, _function)
NAMESPACE.update(clone=clone, fill=fill, fill_=fill_, zero_=zero_)
