"""Where the elements are that are not zero, or that begin a run of equal ones: the kernels behind nonzero, masks and unique.

Also what a mask chooses, and filling it. Stands on codegen.ordering.compact and codegen.gather_scatter.masking.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import int64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.gather_scatter import masking
from flambeau.codegen.ordering import compact
from flambeau.codegen.runtime.launch import readers
from flambeau.core.tensor.create import CPU
from flambeau.core.tensor.lazy_conjugate import resolved
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ops.creation.copy import contiguous

_NUMBER = Layout.contiguous((), int64, CPU)
_read_total = readers["int64"]
_counting: dict[Any, Any] = register_cache({})
_writing: dict[Any, Any] = register_cache({})
_selecting: dict[Any, Any] = register_cache({})
_filling: dict[Any, Any] = register_cache({})


def _counted(input: Tensor, layout: Layout, begins: bool = False) -> tuple[Tensor, int]:
    """(where each chunk's elements start among those looked for, how many there are) of a contiguous tensor that has elements;
    none that are known of, on the meta device.

    layout: the tensor's, as the caller read it once: another thread may resize the tensor, and what is counted here is later
    written by a plan for the same number of elements.
    """
    count = _counting.get((layout, begins))
    if count is None:
        counts = Layout.contiguous((-(-layout.numel // compact.CHUNK) + 1,), int64, layout.device)
        count = _counting[layout, begins] = (compact.counting_plan(layout, counts, begins), counts.numel - 1)
    starts = count[0](None, input)
    return starts, _read_total(tensor_from(starts._storage, count[1], _NUMBER)) if known(input) else 0


def _need(input: Tensor) -> None:
    """NotImplementedError for a tensor without values, of which nobody knows how many are not zero."""
    if not known(input):
        raise needs_values(
            input,
            "nonzero",
            NotImplementedError(
                "The register_meta function for torch.nonzero() raises unimplemented by default, as a correct data-independent "
                "implementation does not exist. This implementation returns a fake value, assuming all elements of the tensor "
                "are non-zero. To enable this registration, please set "
                "'torch.fx.experimental._config.meta_nonzero_assume_all_nonzero' to True."
            ),
        )


def compressed(values: Tensor, mask: Tensor) -> Tensor:
    """The values where a bool tensor is true, in one row: raw contiguous tensors of one shape, elements of at most 8 bytes."""
    layout, chosen = values._layout, mask._layout
    _need(mask)
    if not layout.numel or not chosen.numel:
        return empty_layout(Layout.contiguous((0,), layout.dtype, layout.device))
    starts, total = _counted(mask, chosen)
    key = (layout, chosen, total)
    launch = _selecting.get(key)
    if launch is None:
        out = Layout.contiguous((total,), layout.dtype, layout.device)
        launch = _selecting[key] = masking.selecting_plan(out, layout, chosen, starts._layout)
    return launch(None, values, mask, starts)


def filled_from(values: Tensor, mask: Tensor, source: Tensor, out: Tensor | None) -> Tensor:
    """The values, but those where a bool tensor is true from a source, in order: into `out` (maybe the values) or a fresh tensor.

    Contiguous raw tensors, the first two of one shape, elements of at most 8 bytes. RuntimeError for a source that is too short.
    """
    layout, chosen, given = values._layout, mask._layout, source._layout
    starts, total = _counted(mask, chosen)
    if total > given.numel:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    if not given.numel:
        source, given = values, layout  # read, and not used
    key = (layout, chosen, given)
    launch = _filling.get(key)
    if launch is None:
        launch = _filling[key] = masking.filling_plan(layout, chosen, given, starts._layout)
    return launch(out, values, mask, source, starts)


def positions(input: Tensor, flat: bool = False, begins: bool = False) -> Tensor:
    """Positions of the elements that are not zero, (number, ndim) int64 in row-major order, each dimension's in one piece.

    flat: (number,), counted in one row; begins: of the elements that differ from the one before and of the first instead, and
    after them how many elements there are (nothing for none).
    """
    layout = input._layout
    if layout.pending:
        input = resolved(input)
        layout = input._layout
    _need(input)
    ndim = 1 if flat else layout.ndim
    if not layout.is_contiguous:
        input = contiguous(tensor_from(input._storage, input._offset, layout))
        layout = input._layout
    starts, total = _counted(input, layout, begins) if layout.numel else (None, 0)
    total += begins and total > 0
    shape, strides = ((total,), (1,)) if flat else ((total, ndim), (1, total))
    out = Layout.of(shape, strides, int64, layout.device)
    if not total or not ndim:
        return empty_layout(out)
    write = _writing.get((layout, total, flat, begins))
    if write is None:
        write = _writing[layout, total, flat, begins] = compact.writing_plan(layout, starts._layout, out, ndim, begins)
    return write(None, input, starts)
