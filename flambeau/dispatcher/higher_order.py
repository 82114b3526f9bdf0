"""What answers the operators whose arguments are functions, torch.ops.higher_order.cond and its kin: the functions are called.

Graphs that programs export and save have them, with graphs as functions. Stands on modes, autograd and the public operators;
used by namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.autograd.function import Function
from flambeau.core.modes.modes import autocast, local, observed, set_grad_enabled
from flambeau.core.operator.publishing import NAMESPACE

__all__ = ["ANSWERS", "NAMES", "flow"]

#: All operators of this kind that PyTorch has.
NAMES = frozenset(
    """
aoti_call_delegate associative_scan auto_functionalized auto_functionalized_v2 autograd_function_apply call_torchbind
cond custom_function_call executorch_call_delegate flat_apply flex_attention flex_attention_backward foreach_map
graphsafe_run_with_rng_state hints_wrapper inductor_compiled_code invoke_leaf_function invoke_quant
invoke_quant_packed invoke_subgraph local_map_hop map_impl out_dtype print run_and_save_rng_state run_const_graph
run_dtensor_rng_op run_with_rng_state scan strict_mode tag_activation_checkpoint while_loop while_loop_stack_output
with_effects wrap wrap_activation_checkpoint wrap_with_autocast wrap_with_set_grad_enabled
""".split()
)
ANSWERS: dict[str, Callable[..., Any]] = {}


def flow() -> Any:
    """What records control flow at the moment, while a program is exported; None at other times."""
    return local.dispatch_modes[-1]._control_flow if local.dispatch_modes else None


def _answer(function: Callable[..., Any]) -> Callable[..., Any]:
    ANSWERS[function.__name__] = function
    return function


@_answer
def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any] = ()) -> Any:
    """true_fn(*operands) if pred, else false_fn(*operands)."""
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


@_answer
def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Sequence[Any], additional_inputs: Sequence[Any] = ()) -> Any:
    """carried_inputs, taken by body_fn to the next ones for as long as cond_fn holds; both get additional_inputs too."""
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried, *additional_inputs)):
        carried = tuple(body_fn(*carried, *additional_inputs))
    return carried


@_answer
def map_impl(f: Any, xs: Sequence[Any], pos_args: Sequence[Any]) -> list[Any]:
    """f(*slices, *pos_args) for the slices of the tensors xs along dimension 0, each of its results stacked."""
    made = [f(*slices, *pos_args) for slices in zip(*[x.unbind(0) for x in xs])]
    return [NAMESPACE["stack"](parts) for parts in zip(*made)]


@_answer
def scan(combine_fn: Any, init: Sequence[Any], xs: Sequence[Any], additional_inputs: Sequence[Any] = ()) -> list[Any]:
    """combine_fn(*carried, *slices, *additional_inputs) along dimension 0: the last values carried, and the results stacked."""
    carried, count = list(init), len(init)
    rows = []
    for slices in zip(*[x.unbind(0) for x in xs]):
        made = list(combine_fn(*carried, *slices, *additional_inputs))
        carried, row = made[:count], made[count:]
        rows.append(row)
    return [*carried, *[NAMESPACE["stack"](parts) for parts in zip(*rows)]]


@_answer
def wrap(func: Any, *args: Any, **kwargs: Any) -> Any:
    """func(*args, **kwargs)."""

    def run() -> Any:
        return func(*args, **kwargs)

    if observed.count and local.observer is not None:
        return local.observer.higher_order("wrap", run, run, (*args, *kwargs.values()), {})
    return run()


@_answer
def strict_mode(callable: Any, operands: Sequence[Any]) -> Any:
    """callable(*operands)."""
    return callable(*operands)


@_answer
def wrap_with_set_grad_enabled(enable_grad: bool, wrapped_func: Any, *args: Any, **kwargs: Any) -> Any:
    """wrapped_func(*args, **kwargs) with gradients recorded or not."""
    with set_grad_enabled(enable_grad):
        return wrapped_func(*args, **kwargs)


@_answer
def wrap_with_autocast(
    device_type: str, dtype: Any, enabled: bool, cache_enabled: bool | None, wrapped_func: Any, *args: Any, **kwargs: Any
) -> Any:
    """wrapped_func(*args, **kwargs) inside torch.autocast."""
    with autocast(device_type, dtype, enabled, cache_enabled):
        return wrapped_func(*args, **kwargs)


@_answer
def autograd_function_apply(
    fwd: Any, bwd: Any, *args: Any, non_differentiable_idx: Sequence[int] = (), saved_for_backward_idx: Sequence[int] = ()
) -> Any:
    """The results of an autograd.Function by two graphs: fwd(*args) gives (results, saved values), bwd(*gradients, *saved
    values) the gradients of args. The indices say which results have no gradient, and of which saved values it is
    checked that nobody writes to them.
    """

    class ApplyTemplate(Function):
        """The Function."""

        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            results, ctx.values = fwd(*given)
            ctx.mark_non_differentiable(*[results[i] for i in non_differentiable_idx])
            ctx.save_for_backward(*[ctx.values[i] for i in saved_for_backward_idx])
            ctx.values = [None if i in saved_for_backward_idx else x for i, x in enumerate(ctx.values)]
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            values = list(ctx.values)
            for i, tensor in zip(saved_for_backward_idx, ctx.saved_tensors, strict=True):
                values[i] = tensor
            return bwd(*gradients, *values)

    return ApplyTemplate.apply(*args)
