"""Operators on tensors that are words of programs: a tensor's dtype as a number, `aten::tensor`, `prim::shape`, futures.

A table of Python functions by name; used by operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.device import device
from flambeau.core.tensor.tensor import Tensor
from flambeau.jit import awaitables
from flambeau.jit.ir.codes import code_of, dtype_of, dtype_or_none, memory_format_of

__all__ = ["FUNCTIONS"]


def _torch() -> Any:
    import flambeau

    return flambeau


def _tensor(data: Any, dtype: Any = None, where: Any = None, requires_grad: bool = False) -> Tensor:
    made: Tensor = _torch().tensor(data, dtype=dtype_or_none(dtype), device=where, requires_grad=requires_grad)
    return made


def _as_tensor(data: Any, dtype: Any = None, where: Any = None) -> Tensor:
    made: Tensor = _torch().as_tensor(data, dtype=dtype_or_none(dtype), device=where)
    return made


def _to(x: Any, *args: Any) -> Any:
    return x.to(*args)


def _to_device(x: Any, where: Any, dtype: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None) -> Any:
    return x.to(where, dtype_of(dtype), non_blocking, copy, memory_format=memory_format_of(memory_format))


def _to_prim_device(x: Any, where: Any, dtype: Any = None, non_blocking: bool = False, copy: bool = False) -> Any:
    made = x if where is None else x.to(where, non_blocking=non_blocking, copy=copy)
    return made if dtype is None else made.to(dtype_of(dtype))


def _to_prim_dtype(x: Any, dtype: Any = None, non_blocking: bool = False, copy: bool = False) -> Any:
    return x if dtype is None else x.to(dtype_of(dtype), non_blocking=non_blocking, copy=copy)


def _device_of(text: Any, index: Any = None) -> Any:
    return device(text) if index is None else device(text, index)


def _raise(message: str, qualified_name: str | None = None) -> None:
    from flambeau.jit.execution.exceptions import raise_named

    raise_named(message, qualified_name)


def _warn(message: str, stacklevel: int = 2) -> None:
    import warnings

    warnings.warn(message, UserWarning, stacklevel=stacklevel + 2)


def _wait(future: Any) -> Any:
    return future.wait()


def _function(name: str) -> Callable[..., Any]:
    return lambda *args: getattr(_torch(), name)(*args)


def _flag(name: str) -> Callable[..., Any]:
    return lambda x: bool(getattr(x, name))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"aten::tensor{kind}": _tensor for kind in (".bool", ".float", ".int", ".complex", "")},
    **{f"aten::as_tensor{kind}": _as_tensor for kind in (".bool", ".float", ".int", ".complex", ".list", "")},
    "aten::_list_to_tensor": lambda values: _torch().tensor(values),
    "aten::_tensor_to_list": lambda x: x.flatten().tolist(),
    "prim::awaitable_wait": _wait, "prim::awaitable_nowait": awaitables._awaitable_nowait,
    "prim::dtype": lambda x: code_of(x.dtype),
    "prim::layout": lambda x: code_of(x.layout),
    "prim::device": lambda x: x.device,
    "prim::grad": lambda x: x.grad,
    "prim::data": lambda x: x.data,
    "prim::requires_grad": lambda x: x.requires_grad,
    "prim::type": lambda where: where.type,
    "prim::index": lambda where: where.index,
    "prim::itemsize": lambda x: x.itemsize,
    "prim::nbytes": lambda x: x.nbytes,
    **{f"prim::{name}": _flag(name) for name in (
        "is_cuda is_cpu is_xpu is_sparse is_sparse_csr is_mkldnn is_quantized is_vulkan is_ipu is_meta is_mps is_nested is_maia "
        "is_mtia is_xla").split()},
    "aten::size": lambda x: list(x.shape),
    "aten::size.int": lambda x, dim: x.size(dim),
    "aten::stride": lambda x: list(x.stride()),
    "aten::len.Tensor": len,
    "aten::device": _device_of,
    "aten::to.device": _to_device,
    "aten::to.prim_Device": _to_prim_device,
    "aten::to.prim_dtype": _to_prim_dtype,
    "aten::to.prim_other": lambda x, non_blocking=False, copy=False: x,
    "aten::cpu": lambda x: x.cpu(),
    "aten::cuda": lambda x: x.cuda(),
    "aten::numpy_T": lambda x: x.T,
    "aten::matrix_H": lambda x: x.H,
    "aten::mT": lambda x: x.mT,
    "aten::mH": lambda x: x.mH,
    "aten::element_size": lambda x: x.element_size(),
    "aten::backward": lambda x, *args: x.backward(*args),
    "aten::is_grad_enabled": lambda: _torch().is_grad_enabled(),
    "aten::set_grad_enabled": lambda value: _torch()._C._set_grad_enabled(value),
    "aten::manual_seed": lambda seed: _torch().manual_seed(seed),
    "aten::einsum": lambda equation, tensors, path=None: _torch().einsum(equation, tensors),
    "aten::is_scripting": lambda: True,
    "aten::is_notscripting": lambda: False,
    "aten::has_torch_function": lambda args: False,
    "aten::_get_tracing_state": lambda: False,
    "aten::_no_grad_zero_": lambda x: _torch().nn.init.zeros_(x),
    "aten::_no_grad_fill_": lambda x, value: _torch().nn.init.constant_(x, value),
    "aten::_no_grad_uniform_": lambda x, a, b, generator=None: _torch().nn.init.uniform_(x, a, b, generator),
    "aten::_no_grad_normal_": lambda x, mean, std, generator=None: _torch().nn.init.normal_(x, mean, std, generator),
    **{f"aten::{name}": _function(name) for name in "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split()},
    "prim::NumToTensor": lambda value: _torch().tensor(value),
    "prim::RaiseException": _raise,
    "aten::warn": _warn,
    "aten::wait": _wait,
    "aten::__contains__.Tensor": lambda x, value: value in x,
}  # fmt: skip
