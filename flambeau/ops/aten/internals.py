"""Operators that PyTorch's own layers call below their public functions: `torch._chunk_cat`, `torch.ops.aten._safe_softmax`, ...

Each says what its public counterpart says, in the form of the dispatcher. Stands on ops.nn.conv, ops.nn.dropout,
ops.nn.embedding, the namespace; found through torch.ops.aten.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import bool_, get_default_dtype, uint8
from flambeau.core.modes.autocast import lower
from flambeau.core.operator.annotations import Tensors
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import described
from flambeau.core.operator.out_rules import OUT_ONLY, Out, joined
from flambeau.core.operator.pointwise import call
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nn.conv import convolution
from flambeau.ops.nn.dropout import KEPT
from flambeau.ops.nn.embedding import renormalise


@composite(method=False, out=Out(dtype=joined, graph=OUT_ONLY))
def _chunk_cat(tensors: Tensors, dim, num_chunks) -> Tensor:
    """Each tensor padded with zeros and cut into `num_chunks` along `dim`, flattened behind it, and joined by chunk."""
    if not len(tensors):
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    parts = []
    for x in tensors:
        d = dim % x.dim()
        size = -(-x.size(d) // num_chunks)
        missing = size * num_chunks - x.size(d)
        if missing:
            x = NAMESPACE["cat"]([x, x.new_zeros((*x.shape[:d], missing, *x.shape[d + 1 :]))], d)
        parts.append(x.reshape(*x.shape[:d], num_chunks, -1))
    return NAMESPACE["cat"](parts, dim % tensors[0].dim() + 1)


@composite(function=True)
def _is_all_true(self: Tensor) -> Tensor:
    """Whether all of its booleans are True, as a tensor; under vmap one answer for all examples."""
    return self.all()


@composite(function=True)
def _is_any_true(self: Tensor) -> Tensor:
    """Whether one of its booleans is True, as a tensor; under vmap one answer for all examples."""
    return self.any()


def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor of that size without values, dense in memory in the order of dimensions `physical_layout`.

    Raises RuntimeError unless this is a permutation.
    """
    size, order = tuple(size), tuple(physical_layout)
    if len(size) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    for i, d in enumerate(order):
        if not 0 <= d < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d} at "
                f"index {i}).  "
                "NB: negative dims not currently supported; file an issue if you want it."
            )
        if d in order[:i]:
            raise RuntimeError("Duplicate dim not allowed")
    strides, step = [0] * len(size), 1
    for d in reversed(order):
        strides[d] = step
        step *= size[d]
    return NAMESPACE["empty_strided"](
        size, strides, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad, pin_memory=pin_memory
    )


NAMESPACE["empty_permuted"] = empty_permuted


# ---------------------------------------------------------------- norms, softmax, dropout


def _native_batch_norm_legit(input, weight, bias, *rest, **named):
    """native_batch_norm: (out, mean, 1 / standard deviation); without running_mean and running_var too."""
    names = ("running_mean", "running_var") if len(rest) + len(named) > 3 else ()
    given = dict(zip((*names, "training", "momentum", "eps"), rest)) | named
    return NAMESPACE["native_batch_norm"](
        input,
        weight,
        bias,
        given.get("running_mean"),
        given.get("running_var"),
        given["training"],
        given["momentum"],
        given["eps"],
    )


NAMESPACE["_native_batch_norm_legit"] = _native_batch_norm_legit


def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    """Batch norm in training: (out, mean, 1 / standard deviation, what a vendor's library would keep, which is nothing)."""
    out, mean, scale = NAMESPACE["native_batch_norm"](input, weight, bias, running_mean, running_var, True, momentum, eps)
    return out, mean, scale, NAMESPACE["empty"]((0,), dtype=uint8, device=input._layout.device)


NAMESPACE["_batch_norm_with_update"] = _batch_norm_with_update


@composite(method=False, node="SafeSoftmaxBackward0")
def _safe_softmax(input: Tensor, dim, dtype=None) -> Tensor:
    """softmax with zeros, not NaN, where all along `dim` is minus infinity."""
    nothing = (input.detach() == float("-inf")).all(dim, True)
    return NAMESPACE["softmax"](input.masked_fill(nothing, 0), dim, dtype).masked_fill(nothing, 0)


@operator(method=False)
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale) -> Tensor:
    """The gradient of dropout: grad_output where the mask is set, scaled."""
    if not (grad_output.dtype.is_floating_point or grad_output.dtype.is_complex):
        grad_output = grad_output.to(get_default_dtype())
    return call(KEPT, [grad_output, mask], (scale,))


@native_dropout_backward.vjp
def _(g, mask, scale):
    return native_dropout_backward(g, mask, scale), None


# ---------------------------------------------------------------- masked indexing


def _inside(indices: Any, input: Tensor) -> list:
    """Indices moved into the range of their dimension."""
    found = []
    for d, index in enumerate(indices):
        if isinstance(index, Tensor) and index.dtype is not bool_:
            index = index.clamp(-input.size(d), input.size(d) - 1)
        found.append(slice(None) if index is None else index)
    return found


@operator(method=False)
def _unsafe_masked_index(input: Tensor, mask: Tensor, indices, fill) -> Tensor:
    """input[indices] where the mask is set, else fill; indices may be out of range where it is not."""
    if not input.numel():
        shape = NAMESPACE["broadcast_tensors"](mask, *[i for i in indices if i is not None])[0].shape
        return input.new_full(shape, fill)
    return input[tuple(_inside(indices, input))].masked_fill(~mask, fill)


@_unsafe_masked_index.vjp
def _(g, input, mask, indices):
    return _unsafe_masked_index_put_accumulate(NAMESPACE["zeros_like"](input), mask, indices, g), None


@operator(method=False)
def _unsafe_masked_index_put_accumulate(input: Tensor, mask: Tensor, indices, values: Tensor) -> Tensor:
    """input with values added at the indices where the mask is set; they may be out of range where it is not."""
    if not input.numel():
        return input.clone()
    places = tuple(None if isinstance(i, slice) else i for i in _inside(indices, input))
    return NAMESPACE["index_put"](input, places, values.masked_fill(~mask, 0), accumulate=True)


@_unsafe_masked_index_put_accumulate.vjp
def _(g, mask, indices, need):
    return g, None, _unsafe_masked_index(g, mask, indices, 0) if need["values"] else None


# ---------------------------------------------------------------- convolution and embedding


NAMESPACE["convolution"] = convolution


@described(autocast=lower)
def conv_tbc(input, weight, bias, pad=0):
    """conv1d of input (T, N, C_in) with weight (K, C_in, C_out) and bias (C_out)."""
    return NAMESPACE["conv1d"](input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1).contiguous()


NAMESPACE["conv_tbc"] = conv_tbc


def embedding_renorm_(input, indices, max_norm, norm_type):
    """Scale the rows of input that are read down to the norm max_norm, in place."""
    renormalise(input, indices, max_norm, norm_type)
    return input


NAMESPACE["embedding_renorm_"] = embedding_renorm_
