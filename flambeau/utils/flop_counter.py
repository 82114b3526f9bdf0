"""FlopCounterMode: the multiplications and additions of products and convolutions, by module and operator.

A mode sees the operators of the forward pass. What a product costs in the backward pass is known when it is made, and counted
when its node of the graph runs. Operators have the names under which PyTorch's kernels count: a Linear is aten.addmm, its
gradients are aten.mm. As in PyTorch, attention in one kernel on the CPU, an LSTM, and what is no product count nothing.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.core.autograd.node import running
from flambeau.core.modes.modes import Mode
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverloadPacket
from flambeau.ops.linalg.einsum import labels_of
from flambeau.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = torch.ops.aten
Shape = Sequence[int]

#: What an operator costs: operator -> function of its arguments' shapes.
flop_registry: dict[Any, Callable[..., int]] = {}


def _shape(x: Any) -> Any:
    return tuple(x.shape) if isinstance(x, torch.Tensor) else x


def _of_shapes(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The formula of shapes as one of tensors."""

    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> Any:
        shapes = {name: _shape(value) for name, value in kwargs.items()}
        return formula(*map(_shape, args), out_shape=_shape(out_val), **shapes)

    return of_tensors


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the function that says what an operator of torch.ops costs, or each of a list.

    It is called with the operator's arguments and the keyword out_val; get_raw=False gives shapes in the place of tensors, and
    the keyword out_shape.
    """

    def register(formula: Callable[..., Any]) -> Callable[..., Any]:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not isinstance(target, (OpOverloadPacket, HigherOrderOperator)):
                raise ValueError("register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                                 "torch.ops.mylib.foo), JitFunction, or HigherOrderOperator, got "
                                 f"{target} which is of type {type(target)}")
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


def _conv_backward(x: Shape, w: Shape, out: Shape, transposed: bool, mask: Sequence[bool]) -> int:
    """A convolution's gradients: of the input, and of the weight, which slides one of `x` and `out` over the other."""

    def swapped(shape: Shape) -> tuple[int, ...]:
        return (shape[1], shape[0], *shape[2:])

    of_input = conv_flop_count(out, w, x, not transposed)
    over, by = (out, x) if transposed else (x, out)
    of_weight = conv_flop_count(swapped(over), swapped(by), swapped(w), False)
    return mask[0] * of_input + mask[1] * of_weight


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Attention: the products of queries with keys and of scores with values; shapes (batch, heads, length, size)."""
    b, h, s_q, d_q = query_shape
    s_k, d_v = value_shape[-2:]
    return bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k)) + bmm_flop((b * h, s_q, s_k), (b * h, s_k, d_v))


# ---------------------------------------------------------------- what operators are made of

# A product: the operator that counts it, its flops, the operator of its gradients, and the flops of each that is wanted.
Product = tuple[Any, int, Any, int]


def _wants(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def _product(kind: Any, flops: int, *operands: Any) -> list[Product]:
    backward = aten.bmm if kind in (aten.bmm, aten.baddbmm) else aten.mm
    return [(kind, flops, backward, flops * sum(map(_wants, operands)))]


def _matmul(result: Any, a: Any, b: Any, kind: Any = None) -> list[Product]:
    if b.ndim == 1:
        return []  # dot and mv count nothing
    flops = 2 * a.shape[-1] * result.numel()
    folded = b.ndim == 2 or (a.ndim <= 2 and _wants(a))
    return _product(kind or (aten.mm if folded else aten.bmm), flops, a, b)


def _linear(result: Any, input: Any, weight: Any, bias: Any = None) -> list[Product]:
    added = bias is not None and (input.ndim <= 2 or input.is_contiguous())
    return _matmul(result, input, weight.t(), aten.addmm if added else aten.mm) if weight.ndim == 2 else []


def _einsum(result: Any, equation: Any, *operands: Any) -> list[Product]:
    tensors, labels, kept_at_end = labels_of(equation, operands)
    made: list[Product] = []
    sizes: dict[Any, int] = {}
    for tensor, names in zip(tensors, labels):
        for name, size in zip(names, tensor.shape):
            sizes[name] = max(sizes.get(name, 1), size)
    left, left_wants = set(labels[0]), tensors[0]
    for number in range(1, len(tensors)):
        right = set(labels[number])
        later = set(kept_at_end).union(*labels[number + 1 :])
        summed = (left & right) - later
        if summed:
            names = (left & right) | ((left | right) & later)
            flops = 2 * math.prod(sizes[name] for name in names)
            made += _product(aten.bmm, flops, left_wants, tensors[number])
        left = (left | right) & later
        left_wants = left_wants if _wants(left_wants) else tensors[number]
    return made


def _convolution(result: Any, input: Any, weight: Any, *args: Any, transposed: bool = False, **kwargs: Any) -> list[Product]:
    x, w, out = _shape(input), _shape(weight), _shape(result)
    if len(x) < len(w):
        x, out = (1, *x), (1, *out)
    mask = (_wants(input), _wants(weight))
    flops = conv_flop_count(x, w, out, transposed)
    return [(aten.convolution, flops, aten.convolution_backward, _conv_backward(x, w, out, transposed, mask))]


def _attention(
    result: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any
) -> list[Product]:
    sizes = {query.shape[-1], key.shape[-1], value.shape[-1]}
    if query.ndim == 4 and dropout_p == 0 and len(sizes) == 1 and not _wants(attn_mask):
        return []  # one kernel
    batch = math.prod(query.shape[:-2])
    scores = 2 * batch * query.shape[-2] * key.shape[-2] * query.shape[-1]
    values = 2 * batch * query.shape[-2] * key.shape[-2] * value.shape[-1]
    wants = _wants(query) or _wants(key)
    return [
        (aten.bmm, scores, aten.bmm, scores * (_wants(query) + _wants(key))),
        (aten.bmm, values, aten.bmm, values * (wants + _wants(value))),
    ]


def _multi_head_attention(result: Any, *args: Any, **kwargs: Any) -> list[Product]:
    called = inspect.signature(torch.nn.functional.multi_head_attention_forward).bind(*args, **kwargs)
    called.apply_defaults()
    given = called.arguments
    query, key, value = given["query"], given["key"], given["value"]
    length, width, source = query.shape[0], query.shape[-1], key.shape[0]
    batch = query.shape[1] if query.ndim == 3 else 1
    weight, out = given["in_proj_weight"], given["out_proj_weight"]
    if key is value:
        places = [(length, query, 3)] if query is key else [(length, query, 1), (source, key, 2)]
    else:
        places = [(length, query, 1), (source, key, 1), (source, value, 1)]
    made: list[Product] = []
    for rows, tensor, parts in places:
        into = aten.addmm if given["in_proj_bias"] is not None and tensor.is_contiguous() else aten.mm
        made += _product(into, 2 * rows * batch * tensor.shape[-1] * width * parts, tensor, weight)
    wants = any(map(_wants, (query, key, value, weight)))
    dropout = given["dropout_p"] if given["training"] else 0.0
    if given["need_weights"] or dropout > 0:
        masked = given["attn_mask"] is not None or given["key_padding_mask"] is not None
        flops = 2 * batch * length * source * width
        first = aten.baddbmm if masked and given["need_weights"] else aten.bmm
        made += [(kind, flops, aten.bmm, 2 * flops * wants) for kind in (first, aten.bmm)]
    of_out = aten.mm if given["out_proj_bias"] is None else aten.addmm
    flops = 2 * length * batch * width * width
    made.append((of_out, flops, aten.mm, flops * (wants + _wants(out))))
    return made


def _tensordot(result: Any, a: Any, b: Any, dims: Any = 2, *args: Any, **kwargs: Any) -> list[Product]:
    summed = a.shape[a.ndim - dims :] if isinstance(dims, int) else [a.shape[int(d)] for d in dims[0]]
    return _product(aten.mm, 2 * result.numel() * math.prod(summed), a, b)


def _multi_dot(result: Any, tensors: Any) -> list[Product]:
    sizes = [tensors[0].shape[0], *[tensor.shape[-1] for tensor in tensors]] if tensors[0].ndim == 2 else []
    if len(sizes) != 4 or tensors[-1].ndim != 2:
        return _product(aten.mm, 2 * math.prod(sizes), *tensors) if len(sizes) == 3 else []
    a, b, c, d = sizes
    flops = 2 * min(a * b * c + a * c * d, b * c * d + a * b * d)
    return [(aten.mm, flops, aten.mm, 2 * flops * any(map(_wants, tensors)))]


_PARTS: dict[str, Callable[..., list[Product]]] = {
    "mm": _matmul,
    "bmm": lambda result, input, mat2, **_: _matmul(result, input, mat2, aten.bmm),
    "matmul": _matmul,
    "addmm": lambda result, input, mat1, mat2, **_: _matmul(result, mat1, mat2, aten.addmm),
    "baddbmm": lambda result, input, batch1, batch2, **_: _matmul(result, batch1, batch2, aten.baddbmm),
    "linear": _linear,
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multi_head_attention,
    "linalg_multi_dot": _multi_dot,
    "chain_matmul": lambda result, *tensors, **_: _multi_dot(result, tensors),
    "tensordot": _tensordot,
    "inner": lambda result, input, other: _matmul(result, input, other.t()) if input.ndim == other.ndim == 2 else [],
}
for _dims in (1, 2, 3):
    _PARTS[f"conv{_dims}d"] = _convolution
    _PARTS[f"conv_transpose{_dims}d"] = lambda result, *args, **kwargs: _convolution(
        result, *args, transposed=True, **kwargs
    )

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


class _Recorder(Mode):
    """Hands every operator call to the counter."""

    def __init__(self, counter: FlopCounterMode):
        self.counter = counter

    def handle(self, operator: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = call(*args, **kwargs)
        self.counter._seen(operator, args, kwargs, result)
        return result


class FlopCounterMode:
    """Context that counts floating point operations, also of backward passes inside it, and prints a table at its end.

    depth: how deep in the tree of modules the table goes (None: all). display: whether it is printed. custom_mapping: formulas
    of shapes for operators of torch.ops, besides those of register_flop_formula. mods is not needed any more.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int | None = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ):
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.depth = 999999 if depth is None else depth
        self.display = display
        self._formulas = {target: formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
                          for target, formula in (custom_mapping or {}).items()}
        self.flop_counts: dict[str, dict[Any, int]] = {}
        self.mod_tracker = ModuleTracker()
        self._recorder = _Recorder(self)
        self._on = False
        self._graph_of_gradients = False  # whether the backward pass that runs is recorded itself

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts = {}
        self.mod_tracker.__enter__()
        self._recorder.__enter__()
        self._on = True
        return self

    def __exit__(self, *exception: object) -> None:
        self._on = False
        self._recorder.__exit__(*exception)
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def _count(self, kind: Any, flops: int, names: set[str]) -> None:
        if not flops:
            return
        for name in names:
            counts = self.flop_counts.setdefault(name, {})
            counts[kind] = counts.get(kind, 0) + flops

    def _seen(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        name = getattr(operator, "name", None) or getattr(operator, "__name__", "")
        names = set(self.mod_tracker.parents)
        # A program's own operator is its record, or the record's overload; others have a name.
        packet = getattr(aten, name, None) if isinstance(name, str) else getattr(operator, "overloadpacket", operator)
        formula = self._formulas.get(packet) or (None if isinstance(name, str) else flop_registry.get(packet))
        if formula is not None:
            self._count(packet, formula(*args, out_val=result, **kwargs), names)
            return
        parts = _PARTS.get(name)
        # What a backward pass calls has been counted when its node began; what is computed again there is under grad mode.
        gradients = running.run is not None
        if parts is None or self._in_one_kernel() or (gradients and not torch.is_grad_enabled()):
            return
        kwargs = {n: x for n, x in kwargs.items() if n != "out"}
        made = parts(result[0] if isinstance(result, tuple) else result, *args, **kwargs)
        for kind, flops, _, _ in made if not (gradients and self._graph_of_gradients) else ():
            self._count(kind, flops, names)
        node = (result[0] if isinstance(result, tuple) else result).grad_fn
        if node is not None and any(flops for *_, flops in made):

            def backward(grads: Any) -> None:
                if self._on:
                    self._graph_of_gradients = torch.is_grad_enabled()
                    for _, _, kind, flops in made:
                        self._count(kind, flops, names)

            node.register_prehook(backward)

    def _in_one_kernel(self) -> bool:
        """Whether an LSTM is at work, which PyTorch gives to one kernel that it doesn't count."""
        module = self.mod_tracker.open[-1][0] if self.mod_tracker.open else None
        return isinstance(module, torch.nn.LSTM) and module.proj_size == 0 and module.weight_ih_l0.dtype is torch.float32

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
