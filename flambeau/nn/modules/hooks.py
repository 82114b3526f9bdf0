"""Hooks of modules: the global hook tables and the gradient boundary of full backward hooks.

Stands on autograd.Function. `module.py` calls these; `register_module_*` are public.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.core.autograd.function import Function
from flambeau.core.autograd.hooks import RemovableHandle
from flambeau.core.tensor.tensor import Tensor


def add_hook(table: OrderedDict, hook: Any, marks: tuple = (), prepend: bool = False) -> RemovableHandle:
    """Put hook in the table and a mark in each of `marks`; with prepend it runs before those already there."""
    handle = RemovableHandle(table, extra_dict=list(marks))
    table[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


# Marks of hooks that run for every module and that a call must look at: one truth test per call.
global_call_hooks: OrderedDict[int, bool] = OrderedDict()


def _tables() -> Any:
    """The module that holds the global tables; a program may put others there, which then are the ones that count."""
    from flambeau.nn.modules import module

    return module


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """hook(module, args) -> None or new args, before the forward of every module."""
    return add_hook(_tables()._global_forward_pre_hooks, hook, (global_call_hooks,))


def register_module_forward_hook(hook: Callable, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """hook(module, args, output) -> None or a new output, after the forward of every module."""
    marks = [global_call_hooks]
    if with_kwargs:
        marks.append(_tables()._global_forward_hooks_with_kwargs)
    if always_call:
        marks.append(_tables()._global_forward_hooks_always_called)
    return add_hook(_tables()._global_forward_hooks, hook, tuple(marks))


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """hook(module, grad_output) -> None or new grad_output, before the backward of every module."""
    return add_hook(_tables()._global_backward_pre_hooks, hook, (global_call_hooks,))


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """hook(module, grad_input, grad_output) -> None or new grad_input, for every module."""
    if _tables()._global_is_full_backward_hook is False:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only one of them."
        )
    _tables()._global_is_full_backward_hook = True
    return add_hook(_tables()._global_backward_hooks, hook, (global_call_hooks,))


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """Deprecated form of `register_module_full_backward_hook`: sees the last node of the module only."""
    if _tables()._global_is_full_backward_hook is True:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only one of them."
        )
    _tables()._global_is_full_backward_hook = False
    return add_hook(_tables()._global_backward_hooks, hook, (global_call_hooks,))


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """hook(module, name, parameter) -> None or a new parameter, at every `register_parameter`."""
    return add_hook(_tables()._global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """hook(module, name, buffer) -> None or a new buffer, at every `register_buffer`."""
    return add_hook(_tables()._global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """hook(module, name, submodule) -> None or a new submodule, at every `add_module`."""
    return add_hook(_tables()._global_module_registration_hooks, hook)


class BackwardHookFunction(Function):
    """The identity on several tensors at once; its backward hands the gradients to a callback."""

    @staticmethod
    def forward(ctx, on_gradients: Callable, materialize: bool, *tensors: Tensor):
        ctx.on_gradients = on_gradients
        ctx.set_materialize_grads(materialize)
        outputs = tuple(tensor.view_as(tensor) for tensor in tensors)
        ctx.mark_non_differentiable(*(output for tensor, output in zip(tensors, outputs) if not tensor.requires_grad))
        return outputs

    @staticmethod
    def backward(ctx, *gradients):
        return (None, None, *ctx.on_gradients(gradients))


class BackwardHook:
    """The boundary around one call of a module that full backward hooks and pre-hooks see.

    `setup_input` and `setup_output` pass the tensors through an identity; the gradient reaches the output's identity
    first (pre-hooks run, grad_output is kept), then the input's (hooks run and may replace grad_input).
    """

    def __init__(self, module: Any, hooks: list[Callable], pre_hooks: list[Callable]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple | None = None
        self.input_positions: list[int] | None = None
        self.output_positions: list[int] | None = None
        self.input_count = -1
        self.output_count = -1

    def setup_input(self, args: tuple) -> tuple:
        self.input_count = len(args)
        args, self.input_positions = self._through(args, self._on_input_gradients, materialize=True)
        return args

    def setup_output(self, output: Any) -> Any:
        is_tensor = isinstance(output, Tensor)
        outputs = (output,) if is_tensor else output
        self.output_count = len(outputs)
        outputs, self.output_positions = self._through(outputs, self._on_output_gradients, materialize=False)
        return outputs[0] if is_tensor else outputs

    @staticmethod
    def _through(values: tuple, on_gradients: Callable, materialize: bool) -> tuple[tuple, list[int] | None]:
        positions = [position for position, value in enumerate(values) if isinstance(value, Tensor)]
        tracked = any(values[position].requires_grad for position in positions)
        if not (tracked and flambeau.is_grad_enabled()):
            return values, None
        fresh = BackwardHookFunction.apply(on_gradients, materialize, *(values[position] for position in positions))
        changed = list(values)
        for position, tensor in zip(positions, fresh):
            changed[position] = tensor
        if isinstance(values, tuple) and hasattr(values, "_fields"):
            return type(values)(*changed), positions
        return tuple(changed), positions

    @staticmethod
    def _spread(positions: list[int], gradients: tuple, count: int) -> tuple:
        result: list = [None] * count
        for position, gradient in zip(positions, gradients):
            result[position] = gradient
        return tuple(result)

    def _on_output_gradients(self, gradients: tuple) -> tuple:
        grad_outputs = self._spread(self.output_positions, gradients, self.output_count)
        for hook in self.pre_hooks:
            grad_outputs = _replaced(
                hook(self.module, grad_outputs), grad_outputs, "Backward pre hook returned an invalid number of grad_output"
            )
        self.grad_outputs = grad_outputs
        if self.input_positions is None:
            # No input carries gradient: the hooks' only chance, and there is nothing for them to change.
            nothing = (None,) * self.input_count
            if self.hooks:
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                    "inputs require gradients. See "
                    "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                    "#torch.nn.Module.register_full_backward_hook for more details.",
                    stacklevel=5,
                )
            for hook in self.hooks:
                result = hook(self.module, nothing, grad_outputs)
                if result is not None and not (isinstance(result, tuple) and all(item is None for item in result)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires "
                        "gradient should always return None or None for all gradients."
                    )
            self.grad_outputs = None
        return tuple(grad_outputs[position] for position in self.output_positions)

    def _on_input_gradients(self, gradients: tuple) -> tuple:
        if self.grad_outputs is None:  # the outputs were not part of this backward
            return gradients
        grad_inputs = self._spread(self.input_positions, gradients, self.input_count)
        for hook in self.hooks:
            grad_inputs = _replaced(
                hook(self.module, grad_inputs, self.grad_outputs),
                grad_inputs,
                "Backward hook returned an invalid number of grad_input",
            )
        self.grad_outputs = None
        return tuple(grad_inputs[position] for position in self.input_positions)


def _replaced(result: Any, gradients: tuple, complaint: str) -> tuple:
    """The gradients after a hook returned `result`."""
    if result is None:
        return gradients
    if not isinstance(result, tuple):
        result = (result,)
    if len(result) != len(gradients):
        raise RuntimeError(f"{complaint}, got {len(result)}, but expected {len(gradients)}")
    return result


def attach_legacy_backward_hooks(module: Any, hooks: list[Callable], args: tuple, result: Any) -> None:
    """Deprecated backward hooks: called with the gradients of the node that made the (first) output."""
    first = result
    while not isinstance(first, Tensor):
        candidates = first.values() if isinstance(first, dict) else first
        first = next(value for value in candidates if isinstance(value, (Tensor, dict, tuple, list)))
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda grad_input, grad_output, hook=hook: hook(module, grad_input, grad_output))
    _warn_legacy_backward_hook(args, result, node)


def _warn_legacy_backward_hook(args: tuple, result: Any, node: Any) -> None:
    """Say when a deprecated hook can't see all gradients of the module."""
    advice = "Please use register_full_backward_hook to get the documented behavior."
    unreliable = "This hook will be missing some grad_{}. "
    if not isinstance(result, Tensor):
        if not (isinstance(result, tuple) and all(isinstance(item, Tensor) for item in result)):
            reason = (
                "Using non-full backward hooks on a Module that does not return a "
                "single Tensor or a tuple of Tensors is deprecated and will be removed "
                "in future versions. "
            )
            warnings.warn(reason + unreliable.format("output") + advice, FutureWarning, stacklevel=4)
            return
    if not all(isinstance(item, Tensor) for item in args):
        reason = (
            "Using non-full backward hooks on a Module that does not take as input a "
            "single Tensor or a tuple of Tensors is deprecated and will be removed "
            "in future versions. "
        )
        warnings.warn(reason + unreliable.format("input") + advice, FutureWarning, stacklevel=4)
        return
    results = (result,) if isinstance(result, Tensor) else result
    if any(item.grad_fn is not node for item in results):
        reason = (
            "Using a non-full backward hook when outputs are generated by different autograd Nodes "
            "is deprecated and will be removed in future versions. "
        )
        warnings.warn(reason + "This hook will be missing some grad_output. " + advice, FutureWarning, stacklevel=4)
        return
    sources = {source for source, _ in node.next_functions}
    wanted = {item.grad_fn for item in args if isinstance(item, Tensor) and item.grad_fn is not None}
    if wanted != sources:
        reason = (
            "Using a non-full backward hook when the forward contains multiple autograd Nodes "
            "is deprecated and will be removed in future versions. "
        )
        warnings.warn(reason + "This hook will be missing some grad_input. " + advice, FutureWarning, stacklevel=4)
