"""Derivatives of operators in PyTorch's own operators, so that who answers below autograd sees backward passes by their names.

Most are found by the names in two schemas: `gelu_backward(grad_output, self, approximate)` asks for what `gelu` was given.
Stands on graphs; loaded by dispatch_modes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.core.autograd import engine
from flambeau.core.operator.variants import NAMESPACE
from flambeau.dispatcher import builtin_schemas
from flambeau.dispatcher.graphs import DERIVATIVES, derivative
from flambeau.dispatcher.namespaces import ops
from flambeau.dispatcher.schema import FunctionSchema

__all__: list[str] = []

aten: Any = ops.aten

# ---------------------------------------------------------------- by the names of the schemas

#: Operators whose derivative is another one's, where that isn't its own name with `_backward`.
_DERIVED = {
    "_softmax": "_softmax_backward_data", "_log_softmax": "_log_softmax_backward_data", "nll_loss_forward": "nll_loss_backward",
    "nll_loss2d_forward": "nll_loss2d_backward", "log_sigmoid_forward": "log_sigmoid_backward",
    "multilabel_margin_loss_forward": "multilabel_margin_loss_backward", "embedding": "embedding_dense_backward",
}  # fmt: skip
_OWN_NAME = """
    gelu silu mish hardsigmoid hardswish hardtanh hardshrink softshrink softplus leaky_relu logit glu tanh sigmoid mse_loss
    smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy multi_margin_loss avg_pool2d avg_pool3d
    max_pool2d_with_indices max_pool3d_with_indices _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d
    adaptive_max_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
    upsample_trilinear3d upsample_bicubic2d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    _upsample_bilinear2d_aa _upsample_bicubic2d_aa reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d grid_sampler_2d grid_sampler_3d native_layer_norm native_group_norm native_batch_norm
    convolution _scaled_dot_product_flash_attention_for_cpu _prelu_kernel native_dropout
""".split()
#: Losses whose arguments may change places.
_SYMMETRIC = frozenset(("mse_loss", "smooth_l1_loss", "huber_loss"))
#: What a derivative calls a result of the operator, by its position.
_RESULTS = {"output": 0, "out": 0, "result": 0, "indices": 1, "mean": 1, "rstd": 2, "save_mean": 1, "save_invstd": 2, "mask": 1,
            "is_target": 1}  # fmt: skip
#: Names of steps that PyTorch doesn't call by the operator's name.
_STEPS = {"_scaled_dot_product_flash_attention_for_cpu": "ScaledDotProductFlashAttentionForCpuBackward0"}


def _by_names(name: str, backward: str) -> None:
    """Declare the derivative of an operator as a call of `backward`, whose arguments are the operator's by their names."""
    schema = builtin_schemas.schema_of(f"aten::{name}", "default")
    asked = builtin_schemas.schema_of(f"aten::{backward}", "default").arguments[1:]
    named = {a.name for a in schema.arguments}
    tensors = [a.name for a in schema.arguments if str(a.type) in ("Tensor", "Optional[Tensor]")]
    results = {r.name: i for i, r in enumerate(schema.returns) if r.name}
    single = len(schema.returns) == 1
    sources = {a.name: a.name if a.name in named else _result(a.name, results, single) for a in asked}
    saved = list(dict.fromkeys([x for n, x in sources.items() if x is not None]))
    extra = [n for n in _shaped(asked, tensors, schema) if n not in saved]
    call = getattr(aten, backward).default
    masked = len(builtin_schemas.schema_of(f"aten::{backward}", "default").returns) > 1

    def rule(**values: Any) -> Any:
        g, need = values.pop("g"), values.pop("need")

        def value(argument: Any) -> Any:
            source = sources[argument.name]
            if source is not None:
                return values[source]
            return _derived(argument.name, values, tensors, need)

        def asked_for() -> Any:
            positional = [value(a) for a in asked if not a.kwarg_only]
            return call(g, *positional, **{a.name: value(a) for a in asked if a.kwarg_only})

        others = [n for n in tensors[1:] if need[n]]
        if not masked and others and name in _SYMMETRIC:
            first = asked_for() if need[tensors[0]] else None
            values[tensors[0]], values[tensors[1]] = values[tensors[1]], values[tensors[0]]
            return first, asked_for()
        if not masked and others:
            raise NotImplementedError(f"the derivative of '{name}' for its argument '{others[0]}' under a mode or class that "
                                      "answers operators: detach that argument")
        made = asked_for()
        return tuple(made) if isinstance(made, (tuple, list)) else made

    DERIVATIVES[name] = rule, _STEPS.get(name), 1 if not single else None, ["g", "need", *saved, *extra]


def _result(name: str, results: dict[str, int], single: bool) -> str | None:
    at = results.get(name, _RESULTS.get(name))
    return None if at is None else "out" if single else f"out{at}"


def _shaped(asked: Sequence[Any], tensors: Sequence[str], schema: FunctionSchema) -> list[str]:
    """The tensors of which a derivative is told a size or dtype."""
    found = []
    own = {a.name for a in schema.arguments}
    for a in asked:
        if a.name in own:
            continue
        if a.name in ("input_size", "input_sizes", "input_dtype", "num_weights"):
            found.append(tensors[0])
        elif a.name == "bias_sizes":
            found.append("bias")
        elif a.name == "train":
            found.append("training")
        elif a.name == "scale":
            found.append("p")
    return found


def _derived(name: str, values: dict[str, Any], tensors: Sequence[str], need: dict[str, bool]) -> Any:
    """The value of an argument of a derivative that is neither an argument of the operator nor a result."""
    if name in ("input_size", "input_sizes"):
        return list(values[tensors[0]]._layout.shape)
    if name == "input_dtype":
        return values[tensors[0]]._layout.dtype
    if name == "num_weights":
        return values[tensors[0]]._layout.shape[0]
    if name == "bias_sizes":
        return None if values["bias"] is None else list(values["bias"]._layout.shape)
    if name == "output_mask":
        return [bool(need[n]) for n in tensors if n not in ("running_mean", "running_var")]
    if name == "train":
        return values["training"]
    if name == "self_is_result":
        return False
    if name == "scale":
        return 1 / (1 - values["p"])
    raise NotImplementedError(f"the derivative asks for '{name}'")


for _name in _OWN_NAME:
    _by_names(_name, f"{_name}_backward")
for _name, _backward in _DERIVED.items():
    _by_names(_name, _backward)


# ---------------------------------------------------------------- elementwise


@derivative("relu")
def _(g: Any, out: Any) -> Any:
    return aten.threshold_backward.default(g, out, 0)


@derivative("threshold")
def _(g: Any, self: Any, threshold: Any) -> Any:
    return aten.threshold_backward.default(g, self, threshold)


@derivative("elu")
def _(g: Any, self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    return aten.elu_backward.default(g, alpha, scale, input_scale, False, self)


@derivative("clone", node="CloneBackward0")
def _(g: Any) -> Any:
    return g


@derivative("_to_copy", node="ToCopyBackward0")
def _(g: Any, self: Any) -> Any:
    return aten._to_copy.default(g, dtype=self._layout.dtype)


@derivative("pow.Tensor_Scalar", node="PowBackward0")
def _(g: Any, self: Any, exponent: Any) -> Any:
    if exponent == 0:
        return aten.zeros_like.default(self)
    return g * _conjugate(aten.mul.Scalar(aten.pow.Tensor_Scalar(self, exponent - 1), exponent))


def _where(condition: Any, a: Any, b: Any) -> Any:
    return NAMESPACE["where"](condition, a, b)


@derivative("where.self", node="WhereBackward0")
def _(g: Any, condition: Any, need: Any) -> Any:
    return (None, _where(condition, g, 0.0) if need["self"] else None, _where(condition, 0.0, g) if need["other"] else None)


@derivative("masked_fill.Scalar", node="MaskedFillBackward0")
def _(g: Any, mask: Any) -> Any:
    return aten.masked_fill.Scalar(g, mask, 0)


@derivative("fill.Scalar", "zero", node="FillBackward0")
def _(g: Any) -> Any:
    return aten.zeros_like.default(g)


@derivative("copy", node="CopyBackwards")
def _(g: Any, self: Any, src: Any, need: Any) -> Any:
    return aten.zeros_like.default(g) if need["self"] else None, g if need["src"] else None


# ---------------------------------------------------------------- reductions


def _expanded(g: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    """A gradient of a reduction, with the dimensions that it reduced."""
    shape = self._layout.shape
    dims = dim or range(len(shape))
    if not keepdim and len(g._layout.shape) != len(shape):
        for d in sorted(x % len(shape) for x in dims):
            g = aten.unsqueeze.default(g, d)
    return aten.expand.default(g, list(shape))


@derivative("sum.default", node="SumBackward0")
def _(g: Any, self: Any) -> Any:
    return aten.expand.default(g, list(self._layout.shape))


@derivative("sum.dim_IntList", node="SumBackward1")
def _(g: Any, self: Any, dim: Any, keepdim: Any) -> Any:
    return _expanded(g, self, dim, keepdim)


@derivative("mean.default", node="MeanBackward0")
def _(g: Any, self: Any) -> Any:
    return aten.div.Scalar(aten.expand.default(g, list(self._layout.shape)), self._layout.numel)


@derivative("mean.dim", node="MeanBackward1")
def _(g: Any, self: Any, dim: Any, keepdim: Any) -> Any:
    made = _expanded(g, self, dim, keepdim)
    return aten.div.Scalar(made, self._layout.numel // max(1, g._layout.numel))


# ---------------------------------------------------------------- products


def _columns(x: Any) -> bool:
    """Whether a matrix lies column by column."""
    steps, shape = x._layout.strides, x._layout.shape
    return steps[0] == 1 and steps[1] == shape[0]


def _first(g: Any, other: Any, own: Any) -> Any:
    """The gradient of the first factor, in its order of memory."""
    if _columns(own):
        return aten.t.default(aten.mm.default(_conjugate(other), aten.t.default(g)))
    return aten.mm.default(g, _conjugate(aten.t.default(other)))


def _second(g: Any, other: Any, own: Any) -> Any:
    if _columns(own):
        return aten.t.default(aten.mm.default(aten.t.default(g), _conjugate(other)))
    return aten.mm.default(_conjugate(aten.t.default(other)), g)


def _conjugate(x: Any) -> Any:
    return x.conj() if x._layout.dtype.is_complex else x


def _scaled(x: Any, by: Any) -> Any:
    return x if by == 1 else aten.mul.Scalar(x, by)


@derivative("mm", node="MmBackward0")
def _(g: Any, self: Any, mat2: Any, need: Any) -> Any:
    return _first(g, mat2, self) if need["self"] else None, _second(g, self, mat2) if need["mat2"] else None


@derivative("addmm", node="AddmmBackward0")
def _(g: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any, need: Any) -> Any:
    return (_scaled(g, beta) if need["self"] else None, _scaled(_first(g, mat2, mat1), alpha) if need["mat1"] else None,
            _scaled(_second(g, mat1, mat2), alpha) if need["mat2"] else None)


@derivative("bmm", node="BmmBackward0")
def _(g: Any, self: Any, mat2: Any, need: Any) -> Any:
    return (aten.bmm.default(g, _conjugate(aten.transpose.int(mat2, 1, 2))) if need["self"] else None,
            aten.bmm.default(_conjugate(aten.transpose.int(self, 1, 2)), g) if need["mat2"] else None)


@derivative("baddbmm", node="BaddbmmBackward0")
def _(g: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any, need: Any) -> Any:
    return (_scaled(g, beta) if need["self"] else None,
            _scaled(aten.bmm.default(g, _conjugate(aten.transpose.int(batch2, 1, 2))), alpha) if need["batch1"] else None,
            _scaled(aten.bmm.default(_conjugate(aten.transpose.int(batch1, 1, 2)), g), alpha) if need["batch2"] else None)


@derivative("mv", node="MvBackward0")
def _(g: Any, self: Any, vec: Any, need: Any) -> Any:
    return (aten.ger.default(g, _conjugate(vec)) if need["self"] else None,
            aten.mv.default(_conjugate(aten.t.default(self)), g) if need["vec"] else None)


@derivative("dot", node="DotBackward0")
def _(g: Any, self: Any, tensor: Any, need: Any) -> Any:
    return g * _conjugate(tensor) if need["self"] else None, g * _conjugate(self) if need["tensor"] else None


# ---------------------------------------------------------------- places


@derivative("index.Tensor", node="IndexBackward0")
def _(g: Any, self: Any, indices: Any) -> Any:
    zeros = aten.new_zeros.default(g, list(self._layout.shape))
    return aten.index_put.default(zeros, list(indices), g, True)


@derivative("index_select", node="IndexSelectBackward0")
def _(g: Any, self: Any, dim: Any, index: Any) -> Any:
    return aten.index_add.default(aten.new_zeros.default(g, list(self._layout.shape)), dim, index, g), None


@derivative("gather", node="GatherBackward0")
def _(g: Any, self: Any, dim: Any, index: Any) -> Any:
    return aten.scatter_add.default(aten.new_zeros.default(g, list(self._layout.shape)), dim, index, g), None


@derivative("cat", node="CatBackward0")
def _(g: Any, tensors: Any, dim: Any, need: Any) -> Any:
    made, at = [], 0
    for x, wanted in zip(tensors, need["tensors"]):
        size = x._layout.shape[dim]
        made.append(aten.slice.Tensor(g, dim, at, at + size) if wanted else None)
        at += size
    return (made,)


@derivative("_unsafe_view", node="UnsafeViewBackward0")
def _(g: Any, self: Any) -> Any:
    return g.reshape(self._layout.shape)



# ---------------------------------------------------------------- views


@derivative("alias")
def _(g: Any) -> Any:
    return g


@derivative("t")
def _(g: Any) -> Any:
    return aten.t.default(g)


@derivative("transpose.int")
def _(g: Any, dim0: Any, dim1: Any) -> Any:
    return aten.transpose.int(g, dim0, dim1)


@derivative("permute")
def _(g: Any, dims: Any) -> Any:
    inverse = sorted(range(len(dims)), key=lambda i: dims[i] % len(dims))
    return aten.permute.default(g, inverse)


@derivative("view.default")
def _(g: Any, self: Any) -> Any:
    return g.reshape(self._layout.shape)


@derivative("expand")
def _(g: Any, self: Any) -> Any:
    return engine.sum_to_shape(g, self._layout.shape)


@derivative("unsqueeze")
def _(g: Any, dim: Any) -> Any:
    return aten.squeeze.dim(g, dim)


def _unsqueezed(g: Any, self: Any, dims: Any) -> Any:
    shape = self._layout.shape
    for d in sorted({x % max(1, len(shape)) for x in dims}):
        if shape and shape[d] == 1:
            g = aten.unsqueeze.default(g, d)
    return g


@derivative("squeeze.default")
def _(g: Any, self: Any) -> Any:
    return _unsqueezed(g, self, range(len(self._layout.shape)))


@derivative("squeeze.dim", node="SqueezeBackward1")
def _(g: Any, self: Any, dim: Any) -> Any:
    return _unsqueezed(g, self, [dim])


@derivative("squeeze.dims", node="SqueezeBackward2")
def _(g: Any, self: Any, dim: Any) -> Any:
    return _unsqueezed(g, self, dim)


@derivative("select.int")
def _(g: Any, self: Any, dim: Any, index: Any) -> Any:
    return aten.select_backward.default(g, list(self._layout.shape), dim, index)


@derivative("slice.Tensor")
def _(g: Any, self: Any, dim: Any, start: Any, end: Any, step: Any) -> Any:
    first, last = 0 if start is None else start, (1 << 63) - 1 if end is None else end
    return aten.slice_backward.default(g, list(self._layout.shape), dim, first, last, step)


@derivative("diagonal.default")
def _(g: Any, self: Any, offset: Any, dim1: Any, dim2: Any) -> Any:
    return aten.diagonal_backward.default(g, list(self._layout.shape), offset, dim1, dim2)


@derivative("unfold")
def _(g: Any, self: Any, dimension: Any, size: Any, step: Any) -> Any:
    return aten.unfold_backward.default(g, list(self._layout.shape), dimension, size, step)


def _filled(gs: Any, sizes: Any) -> list[Any]:
    """Gradients with zeros in the place of those that didn't come."""
    given = next(g for g in gs if g is not None)
    return [aten.new_zeros.default(given, list(size)) if g is None else g for g, size in zip(gs, sizes)]


@derivative("unbind.int")
def _(gs: Any, self: Any, dim: Any) -> Any:
    shape = list(self._layout.shape)
    del shape[dim]
    return aten.stack.default(_filled(gs, [shape] * len(gs)), dim)


@derivative("split.Tensor")
def _(gs: Any, self: Any, split_size: Any, dim: Any) -> Any:
    whole = self._layout.shape[dim]
    return _joined(gs, self, [min(split_size, whole - i * split_size) for i in range(len(gs))], dim)


@derivative("split_with_sizes")
def _(gs: Any, self: Any, split_sizes: Any, dim: Any) -> Any:
    return _joined(gs, self, split_sizes, dim)


def _joined(gs: Any, self: Any, sizes: Any, dim: Any) -> Any:
    shapes = []
    for size in sizes:
        shape = list(self._layout.shape)
        shape[dim] = size
        shapes.append(shape)
    return aten.cat.default(_filled(gs, shapes), dim)


# ---------------------------------------------------------------- values at chosen places


def _selected(g: Any, indices: Any, self: Any, dim: int, keepdim: bool) -> Any:
    """Zeros with the gradient where the values of a reduction came from."""
    if not self._layout.ndim:
        return g
    if not keepdim:
        g, indices = aten.unsqueeze.default(g, dim), aten.unsqueeze.default(indices, dim)
    return aten.scatter.src(aten.new_zeros.default(g, list(self._layout.shape)), dim, indices, g)


@derivative("max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode", "kthvalue", differentiable=1)
def _(g: Any, self: Any, dim: Any, keepdim: Any, out1: Any) -> Any:
    return _selected(g, out1, self, dim, keepdim)


@derivative("sort.default", "topk", differentiable=1)
def _(g: Any, self: Any, dim: Any, out1: Any) -> Any:
    return _selected(g, out1, self, dim, True)


@derivative("sort.stable", node="SortBackward1", differentiable=1)
def _(g: Any, self: Any, dim: Any, out1: Any) -> Any:
    return _selected(g, out1, self, dim, True)


@derivative("index_put")
def _(g: Any, self: Any, indices: Any, values: Any, accumulate: Any, need: Any) -> Any:
    mine = None
    if need["self"]:
        mine = g if accumulate else aten.index_put.default(g, indices, aten.zeros_like.default(values), False)
    return mine, aten.index.Tensor(g, indices) if need["values"] else None


@derivative("stack")
def _(g: Any, tensors: Any, dim: Any, need: Any) -> Any:
    return ([aten.select.int(g, dim, i) if wanted else None for i, wanted in enumerate(need["tensors"])],)


# ---------------------------------------------------------------- reductions of several steps


def _whole(g: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    """A gradient, or result, of a reduction with the dimensions that it reduced."""
    ndim = self._layout.ndim
    if keepdim or dim is None or not len(dim):
        return g
    for d in sorted(x % max(1, ndim) for x in dim):
        g = aten.unsqueeze.default(g, d)
    return g


def _of_variance(g: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    shape = self._layout.shape
    count = math.prod(shape[d] for d in (dim or range(len(shape))))
    mean = aten.mean.dim(self, dim, True) if dim else aten.mean.default(self)
    free = count - (1 if correction is None else correction)
    apart = aten.sub.Tensor(self, mean)
    g = _whole(g, self, dim, keepdim)
    return aten.mul.Tensor(aten.mul.Scalar(g, 2 / free if free > 0 else math.nan), apart)


@derivative("var.correction")
def _(g: Any, self: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
    return _of_variance(g, self, dim, correction, keepdim)


def _without_zeros(g: Any, by: Any, zero: Any) -> Any:
    """g / by, 0 where `zero` is 0."""
    return aten.masked_fill_.Scalar(aten.div.Tensor(g, by), aten.eq.Scalar(zero, 0), 0)


@derivative("std.correction")
def _(g: Any, self: Any, dim: Any, correction: Any, keepdim: Any, out: Any) -> Any:
    return _of_variance(_without_zeros(g, aten.mul.Scalar(out, 2), out), self, dim, correction, keepdim)


@derivative("logsumexp")
def _(g: Any, self: Any, dim: Any, keepdim: Any, out: Any) -> Any:
    share = aten.exp.default(aten.sub.Tensor(self, _whole(out, self, dim, keepdim)))
    return aten.mul.Tensor(_whole(g, self, dim, keepdim), share)


@derivative("maximum")
def _(g: Any, self: Any, other: Any, need: Any) -> Any:
    return _larger(g, self, other, need, aten.lt.Tensor, aten.gt.Tensor)


@derivative("minimum")
def _(g: Any, self: Any, other: Any, need: Any) -> Any:
    return _larger(g, self, other, need, aten.gt.Tensor, aten.lt.Tensor)


def _larger(g: Any, self: Any, other: Any, need: Any, loses: Any, wins: Any) -> Any:
    """The gradient of the larger, or smaller, of two: halves where they are equal."""

    def share(lost: Any) -> Any:
        halves = aten.where.self(aten.eq.Tensor(self, other), aten.div.Scalar(g, 2), g)
        return aten.masked_fill_.Scalar(halves, lost(self, other), 0)

    return share(loses) if need["self"] else None, share(wins) if need["other"] else None


@derivative("celu")
def _(g: Any, self: Any, alpha: Any) -> Any:
    return aten.elu_backward.default(g, alpha, 1, 1.0 / alpha, False, self)


@derivative("block_diag")
def _(g: Any, tensors: Any, need: Any) -> Any:
    made, row, column = [], 0, 0
    for x, wanted in zip(tensors, need["tensors"]):
        rows, columns = (1, 1, *x._layout.shape)[-2:] if x._layout.ndim else (1, 1)
        part = aten.slice.Tensor(aten.slice.Tensor(g, 0, row, row + rows), 1, column, column + columns)
        made.append(part.reshape(x._layout.shape) if wanted else None)
        row, column = row + rows, column + columns
    return (made,)


@derivative("clamp.default")
def _(g: Any, self: Any, min: Any, max: Any) -> Any:
    inside = None if min is None else aten.ge.Scalar(self, min)
    if max is not None:
        below = aten.le.Scalar(self, max)
        inside = below if inside is None else aten.logical_and_.default(inside, below)
    return _where(inside, g, 0.0)
