"""segment_reduce: sums, products, means and extrema of consecutive segments of a dimension.

Rows are gathered by the segment they belong to and scattered into it. Stands on core.operator.define; used by programs.
"""

from __future__ import annotations

import functools
from typing import Any

from flambeau.base.dtype import float32, float64, int64
from flambeau.core.autograd.inplace import owned
from flambeau.core.operator.define import operator
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import found, known

KINDS = {"sum": "sum", "prod": "prod", "mean": "sum", "max": "amax", "min": "amin"}
START = {"sum": 0.0, "prod": 1.0, "mean": 0.0, "max": float("-inf"), "min": float("inf")}


def _members(lengths: Tensor | None, offsets: Tensor | None, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """(row, segment) of each row that is in a segment, both counted through the batch, and the lengths of segments."""
    if lengths is None:
        assert offsets is not None
        starts, counts = offsets.narrow(-1, 0, offsets.size(-1) - 1), offsets.diff()
    else:
        counts = lengths
        starts = lengths.cumsum(-1) - lengths
    batch = counts.numel() // max(counts.size(-1), 1)
    arange = functools.partial(NAMESPACE["arange"], device=counts._layout.device)
    starts = starts.reshape(batch, -1) + arange(batch).unsqueeze(1) * size
    flat = counts.reshape(-1).to(int64)
    total = None if known(flat) else batch * size  # then every row is taken to be in a segment
    segments = NAMESPACE["repeat_interleave"](arange(flat.numel()), flat, output_size=total)
    before = flat.cumsum(0) - flat
    rows = starts.reshape(-1)[segments] + arange(segments.numel()) - before[segments]
    return rows.to(int64), segments, flat


def _check(
    data: Tensor, reduce: str, lengths: Tensor | None, indices: Any, offsets: Tensor | None, axis: int, unsafe: bool
) -> int:
    """The axis, not negative; RuntimeError and NotImplementedError where PyTorch raises them."""
    if reduce not in KINDS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if data.numel() == 0 and not (lengths is not None or offsets is not None):
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if data.dtype not in (float32, float64) and data.dtype.name not in ("float16", "bfloat16"):
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{data.dtype.scalar_name}'")
    if not -data.dim() <= axis < data.dim():
        raise IndexError(f"Dimension out of range (expected to be in range of [{-data.dim()}, {data.dim() - 1}], but got {axis})")
    axis %= data.dim()
    name, given = ("lengths", lengths) if lengths is not None else ("offsets", offsets)
    if axis != given.dim() - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    if lengths is not None and not unsafe:
        if found(lengths < 0):
            raise RuntimeError("lengths contains negative value!")
        if found(lengths.sum(-1) != data.size(axis)):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
            )
    return axis


def _rows_of(data: Tensor, axis: int) -> Tensor:
    return data.reshape(-1, *data.shape[axis + 1 :])


@operator(method=False)
def segment_reduce(data: Tensor, reduce, *, lengths=None, indices=None, offsets=None, axis: int = 0, unsafe=False, initial=None):
    """Reduce consecutive segments of dimension `axis` to one element each.

    reduce: sum, prod, mean, max or min; lengths: (..., segments) with the dimensions of data up to `axis`, or offsets:
    (..., segments + 1), where segments begin and the last one ends; initial: what each begins with, and what an empty one
    is (by default 0, 1, NaN and the infinities). Raises RuntimeError for lengths that don't add up, unless unsafe.
    """
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    axis = _check(data, reduce, lengths, indices, offsets, axis, unsafe)
    rows, segments, counts = _members(lengths, offsets, data.size(axis))
    values = _rows_of(data, axis)[rows]
    tail = tuple(data.shape[axis + 1 :])
    start = START[reduce] if initial is None else initial
    flat = NAMESPACE["full"]((counts.numel(), *tail), start, dtype=data.dtype, device=data._layout.device)
    places = segments.reshape(-1, *(1,) * len(tail)).expand(values.shape)
    out = flat.scatter_reduce(0, places, values, KINDS[reduce], include_self=True)
    if reduce == "mean":
        size = counts.reshape(-1, *(1,) * len(tail))
        empty = out if initial is not None else NAMESPACE["full_like"](out, float("nan"))
        out = NAMESPACE["where"](size > 0, out / size.clamp(min=1).to(data.dtype), empty)
    given = lengths.shape if lengths is not None else (*offsets.shape[:-1], offsets.size(-1) - 1)
    return owned(out.reshape(*given, *tail))


@segment_reduce.vjp
def _(g, out, data, reduce, lengths, offsets, axis, initial):
    axis %= data.dim()
    rows, segments, counts = _members(lengths, offsets, data.size(axis))
    tail = tuple(data.shape[axis + 1 :])
    ones = (1,) * len(tail)
    flat, values = g.reshape(-1, *tail), _rows_of(data, axis)[rows]
    if reduce == "sum":
        part = flat[segments]
    elif reduce == "mean":
        part = (flat / counts.reshape(-1, *ones).clamp(min=1).to(g.dtype))[segments]
    else:
        places = segments.reshape(-1, *ones).expand(values.shape)
        nothing = g.new_zeros((counts.numel(), *tail))
        if reduce == "prod":
            start = 1.0 if initial is None else initial
            zero, missing = values == 0, values.isnan()
            ordinary = values.masked_fill(zero | missing, 1)
            product = (nothing + start).scatter_reduce(0, places, ordinary, "prod")[segments]
            zeros, nans = (
                nothing.scatter_add(0, places, kind.to(g.dtype))[segments] - kind.to(g.dtype) for kind in (zero, missing)
            )
            # the product of the others of the segment, zeros and NaNs among which are counted
            others = (product / ordinary).masked_fill(zeros > 0, 0).masked_fill(nans > 0, float("nan"))
            part = flat[segments] * others
        else:
            extreme = out.reshape(-1, *tail)[segments]
            chosen = ((values == extreme) | values.isnan()).detach()
            share = nothing.scatter_add(0, places, chosen.to(g.dtype))[segments]
            part = (flat[segments] / share.clamp(min=1)).masked_fill(~chosen, 0)
    whole = g.new_zeros(_rows_of(data, axis).shape)
    return whole.index_add(0, rows, part).reshape(data.shape)


NAMESPACE["_segment_reduce"] = segment_reduce
