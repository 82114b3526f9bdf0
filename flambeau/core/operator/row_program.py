"""Row programs: reductions, softmax, norms, scans - declared as stages over the rows of their inputs.

A `Rows` is declared once with a function that writes the stages (ir.loops) from the elements of its inputs; called with tensors
and the dimensions that make a row, it lays them out, compiles once per form and runs. It records nothing: operators in
flambeau.ops wrap it with their rules. Stands on codegen.loops.schedule and core.tensor.tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import memory_order
from flambeau.base.dtype import FLOAT8
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_strides, register_cache
from flambeau.codegen.loops import schedule
from flambeau.codegen.plan import Loops, Plan
from flambeau.codegen.targets import lowered
from flambeau.core.operator.pointwise import RELEASE_FROM, scalar_kind
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ir.loops import Nest, element, number
from flambeau.ir.scalar import compute_dtype

FULL, KEPT, KEEPDIM = "full", "kept", "keepdim"


class Rows:
    """A row program.

    stages(elements, numbers, *statics) -> stages, where elements and numbers are tuples of expressions; outputs(dtypes, *statics)
    -> a list of (dtype, FULL | KEPT | KEEPDIM): the shape of the inputs, or that without the row's dimensions, or with size 1
    there. number_dtype(dtypes) is the compute dtype of run-time numbers. ordered: positions along the row matter.
    format: the strides of FULL results by shape and strides of the first input, C order unless given. counted: a write to a given
    result makes tensors saved for a gradient stale. kernel: PyTorch's name of it in refusals; float8: whether elements of float8
    dtypes have a meaning. converts: elements are made the result's dtype first, so that it is the result which may not be float8.
    """

    def __init__(
        self,
        name: str,
        stages: Callable,
        outputs: Callable,
        number_dtype: Callable[[Sequence[DType]], DType] | None = None,
        ordered: bool = False,
        format: Callable[[tuple, tuple], tuple] | None = None,
        counted: bool = True,
        kernel: str | None = None,
        float8: bool = False,
        converts: bool = False,
    ):
        self.name, self.stages, self.outputs = name, stages, outputs
        self.ordered, self.format, self.counted = ordered, format, counted
        self.kernel, self.float8, self.converts = kernel or f"{name}_cpu", float8, converts
        self.number_dtype = number_dtype or (lambda dtypes: compute_dtype(dtypes[0]))
        self.plans: dict[Any, Callable] = register_cache({})
        self.nests: dict[Any, Nest] = register_cache({})

    def __call__(
        self,
        inputs: Sequence[Tensor],
        dims: tuple[int, ...],
        numbers: Sequence[Any] = (),
        statics: tuple = (),
        out: Sequence[Tensor | None] | None = None,
        picks: tuple[tuple[int, int], ...] = (),
    ) -> Any:
        """Run over tensors that broadcast to the shape of the first; dims are the row's (sorted, not negative).

        picks: (input, axis) pairs for `pick` expressions. One output is returned as a Tensor, several as a tuple.
        """
        key = (
            *[x._layout for x in inputs],
            dims,
            *[v.__class__ for v in numbers],
            statics,
            picks,
            None if out is None else tuple([None if x is None else x._layout for x in out]),
        )
        launch = self.plans.get(key)
        if launch is None:
            launch, count = self._prepare(inputs, dims, numbers, statics, out, picks)
            self.plans[key] = launch = (launch, (None,) * count)
        run, nothing = launch
        return run(*(nothing if out is None else out), *inputs, *numbers)

    def launcher(
        self,
        inputs: Sequence[Tensor],
        dims: tuple[int, ...],
        numbers: Sequence[Any] = (),
        statics: tuple = (),
        picks: tuple[tuple[int, int], ...] = (),
        out: Sequence[Tensor | None] | None = None,
    ) -> Callable:
        """The plan of such a call, `launch(None or a tensor per output, *inputs, *numbers)`, for operators that keep it
        under keys of their own.
        """
        return self._prepare(inputs, dims, numbers, statics, out, picks)[0]

    def _strides_of_full(self, layout: Layout) -> tuple[int, ...]:
        return self.format(layout.shape, layout.strides) if self.format is not None else contiguous_strides(layout.shape)

    def _prepare(self, inputs, dims, numbers, statics, out, picks) -> tuple[Callable, int]:
        """A plan; inputs that lie in another order than a full-size result are copied first: tiles move faster than rows. So are
        conjugate and negative views, whose memory isn't what they mean.
        """
        layouts = [x._layout for x in inputs]
        described = self.outputs(tuple(layout.dtype for layout in layouts), *statics)
        moved = {
            i: Layout.of(x.shape, memory_order.preserved_strides(x.shape, x.strides), x.dtype, x.device)
            for i, x in enumerate(layouts)
            if x.pending
        }
        if (out is None or out[0] is None) and described[0][1] == FULL:
            strides = self._strides_of_full(layouts[0])
            moved |= {
                i: Layout.of(x.shape, strides, x.dtype, x.device)
                for i, x in enumerate(layouts)
                if x.shape == layouts[0].shape and not memory_order.same_order(x.shape, x.strides, strides)
            }
        if not moved:
            return self._plan(layouts, dims, numbers, statics, out, picks)
        run, count = self._plan([moved.get(i, x) for i, x in enumerate(layouts)], dims, numbers, statics, out, picks)

        def launch(*arguments: Any) -> Any:
            given = list(arguments)
            for i, layout in moved.items():
                x = given[count + i]
                given[count + i] = empty_layout(layout).copy_(tensor_from(x._storage, x._offset, layouts[i]))
            return run(*given)

        return launch, count

    def _plan(self, layouts, dims, numbers, statics, out, picks) -> tuple[Callable, int]:
        shape = layouts[0].shape
        picked = dict(picks)
        dtypes = tuple(layout.dtype for layout in layouts)
        described = self.outputs(dtypes, *statics)
        judged = [dtype for dtype, _ in described] if self.converts else dtypes
        refused = None if self.float8 else next((dtype for dtype in judged if dtype in FLOAT8), None)
        if refused is not None:
            raise NotImplementedError(f"\"{self.kernel}\" not implemented for '{refused.scalar_name}'")
        kept = [d for d in range(len(shape)) if d not in dims]
        device = layouts[0].device
        out_layouts: list[Layout] = []
        out_strides: list[tuple[int, ...]] = []  # over the full shape
        for i, (dtype, form) in enumerate(described):
            given = out[i]._layout if out is not None and out[i] is not None else None
            if form == FULL:
                layout = given or Layout.of(shape, self._strides_of_full(layouts[0]), dtype, device)
                out_strides.append(layout.strides)
            else:
                own = tuple(shape[d] for d in kept) if form == KEPT else tuple(1 if d in dims else n for d, n in enumerate(shape))
                layout = given or Layout.contiguous(own, dtype, device)
                walk = iter(layout.strides)
                out_strides.append(
                    tuple(
                        (0 if d in dims else next(walk)) if form == KEPT else (0 if d in dims else s)
                        for d, s in enumerate(layout.strides if form == KEEPDIM else shape)
                    )
                )
            out_layouts.append(layout)
        in_strides = []
        pick_axes: dict[int, tuple[int, int]] = {}
        for i, layout in enumerate(layouts):
            if i in picked:
                axis = picked[i]
                pick_axes[len(described) + i] = (layout.strides[axis], layout.shape[axis])
                strides = tuple(0 if d == axis else s for d, s in enumerate(layout.strides))
                in_strides.append(
                    strides
                    if layout.ndim == len(shape)
                    else memory_order.broadcast_strides(
                        tuple(1 if d == axis else n for d, n in enumerate(layout.shape)), strides, shape
                    )
                )
            else:
                in_strides.append(memory_order.broadcast_strides(layout.shape, layout.strides, shape))
        kinds = "".join([scalar_kind(v) for v in numbers])
        nest = self._nest(dtypes, tuple(layout.dtype for layout in out_layouts), kinds, statics)
        strides = out_strides + in_strides
        step = Loops(
            nest,
            [shape[d] for d in kept],
            [tuple(s[d] for d in kept) for s in strides],
            [shape[d] for d in dims],
            [tuple(s[d] for d in dims) for s in strides],
            pick_axes,
            self.ordered,
        )
        work = layouts[0].numel * schedule.cost(nest)
        launch = lowered(Plan([step], out_layouts, layouts, kinds, release=work >= RELEASE_FROM, counted=self.counted))
        return launch, len(described)

    def _nest(self, dtypes: tuple[DType, ...], results: tuple[DType, ...], kinds: str, statics: tuple) -> Nest:
        """The loop nest for operands of these dtypes and numbers of these kinds, whatever their shapes."""
        key = dtypes, results, kinds, statics
        nest = self.nests.get(key)
        if nest is None:
            elements = tuple(element(i, d) for i, d in enumerate(dtypes))
            number_dtype = self.number_dtype(dtypes)
            stages = self.stages(elements, tuple(number(i, number_dtype) for i in range(len(kinds))), *statics)
            nest = Nest(self.name, results, dtypes, tuple(stages), tuple((kind, number_dtype) for kind in kinds))
            self.nests[key] = nest
        return nest
