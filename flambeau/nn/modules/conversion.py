"""Moving a module's tensors to another dtype, device or memory format.

A base class of Module. Everything goes through `_apply(fn)`, which rewrites the storage of each parameter and buffer
in place, so that an optimiser keeps seeing the same Parameter objects.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.core.modes.dispatching import dispatching
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.parameter import Parameter, is_lazy


def _no_such_form(args: tuple, kwargs: dict[str, Any]) -> TypeError:
    """The exception for arguments that `Module.to` doesn't take."""
    received = "".join(f"{type(value).__name__}, " for value in args).removesuffix(", ")
    received += "".join(f"{name}={type(value).__name__}, " for name, value in kwargs.items())
    return TypeError(
        f"to() received an invalid combination of arguments - got ({received}), but expected one of:\n"
        " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, "
        "*, torch.memory_format memory_format = None)\n"
        " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, "
        "torch.memory_format memory_format = None)\n"
        " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, "
        "torch.memory_format memory_format = None)\n"
    )


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) of the forms that `Tensor.to` and `Module.to` accept."""
    device = dtype = None
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
        device, dtype = other.device, other.dtype
    elif rest and isinstance(rest[0], flambeau.dtype):
        dtype = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], (str, int, flambeau.device))):
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], flambeau.dtype)):
            dtype = rest.pop(0)
        elif rest:
            raise _no_such_form(args, kwargs)
    if "tensor" in kwargs:
        other = kwargs.pop("tensor")
        device, dtype = other.device, other.dtype
    device = kwargs.pop("device", device)
    dtype = kwargs.pop("dtype", dtype)
    given = dict(kwargs)
    non_blocking = kwargs.pop("non_blocking") if "non_blocking" in kwargs else rest.pop(0) if rest else False
    if not isinstance(non_blocking, bool):
        raise _no_such_form(args, given)
    if "copy" in kwargs or (len(rest) == 1 and isinstance(rest[0], bool)):
        raise RuntimeError(".to() does not accept copy argument")
    memory_format = kwargs.pop("memory_format", None)
    if rest or kwargs:
        raise _no_such_form(args, kwargs)
    if isinstance(device, (str, int)):
        device = flambeau.device(device)
    return device, dtype, bool(non_blocking), memory_format


def _is_number_like(tensor: Tensor) -> bool:
    """Whether a change of dtype applies: integers (step counters, indices) stay what they are."""
    return tensor.is_floating_point() or tensor.is_complex()


class Replacement:
    """How `_apply` and `load_state_dict` replace a parameter (torch.__future__ sets it): by writing `.data`, unless it
    overwrites them (puts another Parameter there) or swaps (makes the new tensor of the old object)."""

    overwrites = False
    swaps = False


replacement = Replacement()


def swap_parameter(present: Tensor, new: Tensor) -> None:
    """Make `present` what `new` is, as a Parameter that requires grad as before where it is one."""
    if isinstance(present, Parameter):
        new = (
            new.requires_grad_(present.requires_grad)
            if isinstance(new, Parameter)
            else Parameter(new, requires_grad=present.requires_grad)
        )
    flambeau.utils.swap_tensors(present, new)


class Conversion:
    """The part of Module that converts tensors."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True):
        """Replace every parameter, its gradient, and every buffer by fn of it; returns self."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            gradient = parameter.grad
            with flambeau.no_grad():
                applied = fn(parameter)
            if replacement.swaps or dispatching(type(applied)):
                self._swap(name, parameter, applied, fn)
                continue
            with flambeau.no_grad():
                new_gradient = None if gradient is None else fn(gradient)
            keep_object = is_lazy(parameter) or (
                not replacement.overwrites and applied.device == parameter.device and applied.layout == parameter.layout
            )
            if not keep_object:
                # The storage can't be exchanged under another device's or layout's tensor: a new Parameter takes the place.
                target = Parameter(applied, parameter.requires_grad)
                self._parameters[name] = target
            else:
                target = parameter
                if applied is not parameter:
                    target.data = applied
            if new_gradient is not None and (target is not parameter or new_gradient is not gradient):
                requires_grad = gradient.requires_grad
                if keep_object:
                    gradient.data = new_gradient
                else:
                    target.grad = new_gradient.requires_grad_(requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _swap(self, name: str, parameter: Tensor, applied: Tensor, fn: Callable[[Tensor], Tensor]) -> None:
        """Make the parameter what `applied` is, and its gradient what fn makes of that."""
        gradient, parameter.grad = parameter.grad, None
        try:
            swap_parameter(parameter, applied)
        except Exception as error:
            parameter.grad = gradient
            raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{name}") from error
        if gradient is None:
            return
        with flambeau.no_grad():
            new = fn(gradient).requires_grad_(gradient.requires_grad)
        try:
            flambeau.utils.swap_tensors(gradient, new)
        except Exception as error:
            raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{name}.grad") from error
        parameter.grad = gradient

    def to(self, *args: Any, **kwargs: Any):
        """Move or cast parameters and buffers in place: to(device), to(dtype), to(device, dtype), to(tensor),
        to(memory_format=...). Only floating point and complex tensors change dtype. Returns self."""
        device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules might not "
                "work as expected when using complex tensors as parameters or buffers. Please file an issue at "
                "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does not work as "
                "expected.",
                stacklevel=2,
            )

        def convert(tensor: Tensor) -> Tensor:
            new_dtype = dtype if dtype is not None and _is_number_like(tensor) else tensor.dtype
            new_device = tensor.device if device is None else device
            if memory_format is not None and tensor.dim() in (4, 5):
                return tensor.to(new_device, new_dtype, non_blocking, memory_format=memory_format)
            if new_dtype is tensor.dtype and new_device == tensor.device:
                return tensor
            if tensor.device.type == "meta" and new_device != tensor.device:
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() "
                    "instead of torch.nn.Module.to() when moving module from meta to a different device."
                )
            return tensor.to(new_device, new_dtype, non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True):
        """Move to a device without copying values (for modules built on "meta"); returns self."""
        return self._apply(lambda tensor: flambeau.empty_like(tensor, device=device), recurse=recurse)

    def type(self, dst_type: Any):
        """Cast every parameter and buffer, integers too; returns self."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self):
        """Cast floating point parameters and buffers to float32; returns self."""
        return self._apply(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def double(self):
        """Cast floating point parameters and buffers to float64; returns self."""
        return self._apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def half(self):
        """Cast floating point parameters and buffers to float16; returns self."""
        return self._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    def bfloat16(self):
        """Cast floating point parameters and buffers to bfloat16; returns self."""
        return self._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)

    def cpu(self):
        """Move to the CPU; returns self."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Any = None):
        """Move to a CUDA device; raises what `Tensor.cuda` raises where there is none."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def ipu(self, device: Any = None):
        """Move to an IPU."""
        return self._apply(lambda tensor: tensor.ipu(device))

    def xpu(self, device: Any = None):
        """Move to an XPU."""
        return self._apply(lambda tensor: tensor.xpu(device))

    def mtia(self, device: Any = None):
        """Move to an MTIA device."""
        return self._apply(lambda tensor: tensor.mtia(device))

    def share_memory(self):
        """`Tensor.share_memory_` on every parameter and buffer; returns self."""
        return self._apply(lambda tensor: tensor.share_memory_())
