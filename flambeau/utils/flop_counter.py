"""FlopCounterMode: the multiplications and additions of products and convolutions, by module and operator.

A mode below autograd sees the operators of forward and backward passes by PyTorch's names: a Linear is aten.addmm, its gradients
are aten.mm. As in PyTorch, attention in one kernel on the CPU, an LSTM, and what is no product count nothing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverloadPacket
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = torch.ops.aten
Shape = Sequence[int]

#: What an operator costs: operator -> function of its arguments' shapes.
flop_registry: dict[Any, Callable[..., int]] = {}


def get_shape(x: Any) -> Any:
    """The shape of a tensor, those of tensors in lists and tuples; anything else as it is."""
    if isinstance(x, (list, tuple)):
        return type(x)([get_shape(y) for y in x])
    return x.shape if isinstance(x, torch.Tensor) else x


def _of_shapes(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The formula of shapes as one of tensors."""

    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> Any:
        shapes = {name: get_shape(value) for name, value in kwargs.items()}
        return formula(*map(get_shape, args), out_shape=get_shape(out_val), **shapes)

    return of_tensors


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the function that says what an operator of torch.ops costs, or each of a list.

    It is called with the operator's arguments and the keyword out_val; get_raw=False gives shapes in the place of tensors, and
    the keyword out_shape.
    """

    def register(formula: Callable[..., Any]) -> Callable[..., Any]:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not isinstance(target, (OpOverloadPacket, HigherOrderOperator)):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    "torch.ops.mylib.foo), JitFunction, or HigherOrderOperator, got "
                    f"{target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else _of_shapes(formula)
        return formula

    return register


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """(m, k) by (k, n): 2 m k n."""
    (m, k), (k2, n) = a_shape, b_shape
    if k != k2:
        raise AssertionError(f"matmul: inner dimensions must match (k == k2), got {k} and {k2}")
    return m * n * 2 * k


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """As mm."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """(b, m, k) by (b, k, n): 2 b m k n."""
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """As bmm."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False) -> int:
    """A convolution: 2 for each weight at each place it comes to lie, once per sample."""
    places = (x_shape if transposed else out_shape)[2:]
    return 2 * x_shape[0] * math.prod(places) * math.prod(w_shape)


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """conv_flop_count of a convolution's arguments."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


@register_flop_formula([aten._convolution, aten.cudnn_convolution, aten.convolution_overrideable, aten._slow_conv2d_forward])
def _other_conv_flop(x_shape: Shape, w_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """conv_flop_count of a convolution by another name; the seventh argument says whether it is transposed."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=len(args) > 4 and args[4] is True)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_out_shape: Shape,
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: Any,
    output_mask: Sequence[bool],
    out_shape: Any = None,
) -> int:
    """A convolution's gradients: of the input, and of the weight, which slides the input or the gradient over the other."""

    def swapped(shape: Shape) -> tuple[int, ...]:
        return (shape[1], shape[0], *shape[2:])

    flops = 0
    if output_mask[0]:
        flops += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        over, by = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        flops += conv_flop_count(swapped(over), swapped(by), swapped(out_shape[1]), False)
    return flops


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Attention: the products of queries with keys and of scores with values; shapes (batch, heads, length, size)."""
    b, h, s_q, d_q = query_shape
    s_k, d_v = value_shape[-2:]
    return bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k)) + bmm_flop((b * h, s_q, s_k), (b * h, s_k, d_v))


@register_flop_formula(
    [
        aten._scaled_dot_product_efficient_attention,
        aten._scaled_dot_product_flash_attention,
        aten._scaled_dot_product_cudnn_attention,
    ]
)
def sdpa_flop(query_shape: Shape, key_shape: Shape, value_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """sdpa_flop_count of the kernels for GPUs; that for CPUs isn't counted, as in PyTorch."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(grad_out_shape: Shape, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """The gradients of attention: the scores again, and the products that give the gradients of scores, values, queries, keys."""
    b, h, s_q, d_q = query_shape
    s_k, d_v = value_shape[-2:]
    scores = bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k))
    of_scores = bmm_flop((b * h, s_q, d_v), (b * h, d_v, s_k))
    of_values = bmm_flop((b * h, s_k, s_q), (b * h, s_q, d_v))
    of_queries = bmm_flop((b * h, s_q, s_k), (b * h, s_k, d_q))
    of_keys = bmm_flop((b * h, d_q, s_q), (b * h, s_q, s_k))
    return scores + of_scores + of_values + of_queries + of_keys


@register_flop_formula(
    [
        aten._scaled_dot_product_efficient_attention_backward,
        aten._scaled_dot_product_flash_attention_backward,
        aten._scaled_dot_product_cudnn_attention_backward,
    ]
)
def sdpa_backward_flop(
    grad_out_shape: Shape, query_shape: Shape, key_shape: Shape, value_shape: Shape, *args: Any, out_shape: Any = None,
    **kwargs: Any,
) -> int:  # fmt: skip
    """sdpa_backward_flop_count of the kernels for GPUs."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


# ---------------------------------------------------------------- figures as text

suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number: float) -> str:
    """The suffix for a number: of thousands, millions, ..., leaving one to four digits."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: float, suffix: str) -> str:
    """A number in units of a suffix, such as 1.500K."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: float, denom: float) -> str:
    """A share, such as 12.50%."""
    return "0%" if denom == 0 else f"{num / denom:.2%}"


class _FlopCounterMode(TorchDispatchMode):
    """Hands every operator to the counter, those that have no formula by what they are made of."""

    def __init__(self, counter: FlopCounterMode):
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        packet = func._overloadpacket
        if packet not in self.counter.flop_registry:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        self.counter._count(packet, result, args, kwargs)
        return result


class FlopCounterMode:
    """Context that counts floating point operations, also of backward passes inside it, and prints a table at its end.

    depth: how deep in the tree of modules the table goes (None: all). display: whether it is printed. custom_mapping: formulas
    of shapes for operators of torch.ops, besides those of register_flop_formula. mods is not needed any more.
    """

    def __init__(
        self, mods: Any = None, depth: int | None = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ):
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.depth = 999999 if depth is None else depth
        self.display = display
        own = {
            target: formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
            for target, formula in (custom_mapping or {}).items()
        }
        self.flop_registry: dict[Any, Callable[..., int]] = {**flop_registry, **own}
        self.flop_counts: dict[str, dict[Any, int]] = {}
        self.mod_tracker = ModuleTracker()
        self.mode: _FlopCounterMode | None = None

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts = {}
        self.mod_tracker.__enter__()
        self.mode = _FlopCounterMode(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.mode is not None
        self.mode.__exit__(*exception)
        self.mode = None
        self.mod_tracker.__exit__(*exception)
        if self.display:
            print(self.get_table(self.depth))

    def _count(self, kind: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        formula = self.flop_registry.get(kind)
        if formula is None:
            return
        flops = formula(*args, **kwargs, out_val=result)
        for name in self.mod_tracker.parents:
            counts = self.flop_counts.setdefault(name, {})
            counts[kind] = counts.get(kind, 0) + flops

    def get_total_flops(self) -> int:
        """All of them."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By the names of modules ("Global": everything) and operators."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The figures as text, of modules down to `depth`."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        suffix = get_suffix_str(total)

        def figure(flops: int) -> str:
            return convert_num_with_suffix(flops, suffix) if suffix else f"{flops}"

        def rows_of(name: str) -> list[list[str]]:
            counts = self.flop_counts.get(name, {})
            whole = sum(counts.values())
            rows = [[name, figure(whole), convert_to_percent_str(whole, total)]]
            return rows + [[f"- {kind}", figure(n), convert_to_percent_str(n, total)] for kind, n in counts.items()]

        shown = [name for name in sorted(self.flop_counts) if name != "Global" and name.count(".") < depth]
        rows = [row for name in shown for row in rows_of(name)]
        if not any(sum(self.flop_counts[name].values()) >= total for name in shown):
            rows = rows_of("Global") + rows
        heads = ["Module", "FLOP", "% Total"]
        widths = [max([len(head) + 2, *[len(row[at]) for row in rows]]) for at, head in enumerate(heads)]

        def line(cells: Sequence[str]) -> str:
            return "  ".join([cells[0].ljust(widths[0]), *[c.rjust(w) for c, w in zip(cells[1:], widths[1:])]])

        return "\n".join([line(heads), line(["-" * width for width in widths]), *map(line, rows)])
