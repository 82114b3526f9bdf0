"""The gradients of pointwise operators: an operator per operand, and one kernel for those of all operands.

`core.operator.pointwise` derives a `Recipe` per set of operands that need gradients; a node of the graph keeps it with what
it says to save. Stands on core.modes.modes and codegen.loops.schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flambeau.base import memory_order
from flambeau.base.dtype import bool_, complex128, float64, int64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.loops import schedule
from flambeau.codegen.plan import Plan, elementwise
from flambeau.codegen.targets import lowered
from flambeau.core.modes import modes
from flambeau.core.modes.dispatching import any_dispatching
from flambeau.core.modes.overrides import any_override
from flambeau.core.tensor.lazy_conjugate import any_pending
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir.loops import Loop, Nest, element, number
from flambeau.ir.scalar import Expr, cast, compute_dtype
from flambeau.ir.simplify import simplify

if TYPE_CHECKING:
    from flambeau.core.operator.pointwise import Pointwise

NUMBERS = frozenset({int, float, bool, complex})
WIDEST = {int: int64, float: float64, bool: bool_, complex: complex128}  # what loses nothing of a Python number
RELEASE_FROM = 1 << 20  # elements of work from which a launch lets other Python threads run
IDENTITY, ZERO = object(), object()


def scalar_kind(value: Any) -> str:
    """How a launch takes a Python number."""
    return {float: "f", complex: "c"}.get(value.__class__, "i")


def _tensors_first(values: Sequence[Any]) -> bool:
    """Whether values are in the order in which launchers take them."""
    numbers = [x.__class__ in NUMBERS for x in values]
    return numbers == sorted(numbers)


@dataclass(frozen=True)
class MissingGradient:
    """Stands for the gradient of an operand for which there is no formula."""

    operator: str

    def __call__(self, g: Tensor, saved: Sequence[Any]) -> Tensor:
        """Raises NotImplementedError."""
        raise NotImplementedError(f"the derivative for '{self.operator}' is not implemented.")


@dataclass(frozen=True)
class Gradient:
    """The gradient of one operand: an operator on ("grad", saved...)."""

    operator: Pointwise
    arguments: tuple[int, ...]  # positions in the node's saved values
    steps: Callable | None = None  # see Pointwise.steps
    launches: dict[Any, Callable] = field(default_factory=lambda: register_cache({}), compare=False)

    def __call__(self, g: Tensor, saved: Sequence[Any]) -> Tensor:
        """The operand's gradient; recorded in grad mode."""
        chosen = [saved[k] for k in self.arguments]
        if self.steps is not None and (modes.local.grad or modes.local.dispatch_modes):
            return self.steps(g, *chosen)
        if modes.local.grad or modes.active.count:
            return self.operator.caller(g, *chosen)
        key = (g._layout, *[x.__class__ if x.__class__ in NUMBERS else x._layout for x in chosen])
        launch = self.launches.get(key)
        if launch is not None:
            return launch(None, g, *chosen)
        if any_override([g, *chosen]) or any_dispatching([g, *chosen]):
            return self.operator.caller(g, *chosen)
        out = self.operator.compute([g, *chosen])
        if _tensors_first(chosen):
            self.launches[key] = self.operator.other_plans[(*key, None)]
        return out


@dataclass(frozen=True)
class Joint:
    """The gradients of several operands at once, where nothing is recorded: what they share is read and computed once."""

    gradients: tuple[Gradient, ...]
    fresh: tuple[None, ...]  # as many as there are results: they are to be allocated
    launches: dict[Any, Callable] = field(default_factory=lambda: register_cache({}), compare=False)

    def __call__(self, g: Tensor, saved: Sequence[Any]) -> Sequence[Tensor]:
        """The operands' gradients."""
        key = (g._layout, *[x.__class__ if x.__class__ in NUMBERS else x._layout for x in saved])
        launch = self.launches.get(key)
        if launch is not None and not modes.active.count:
            return launch(*self.fresh, g, *saved)
        operands = [g, *saved]
        answered = modes.active.count or any_override(operands) or any_dispatching(operands)
        if answered or any_pending(operands) or not _tensors_first(saved):
            return [gradient(g, saved) for gradient in self.gradients]
        launch = self.launches[key] = self._plan(g, saved)
        return launch(*self.fresh, g, *saved)

    def _plan(self, g: Tensor, saved: Sequence[Any]) -> Callable:
        layouts, scalars, leaves = [g._layout], [], []
        for x in saved:
            if x.__class__ in NUMBERS:
                leaves.append(number(len(scalars), WIDEST[x.__class__]))
                scalars.append((scalar_kind(x), leaves[-1].dtype))
            else:
                leaves.append(element(len(layouts), x._layout.dtype))
                layouts.append(x._layout)
        shape, outputs, stores = g._layout.shape, [], []
        for j, gradient in enumerate(self.gradients):
            expression, layout = self._result(gradient, g, saved, leaves)
            outputs.append(layout)
            stores.append((j, expression))
        name = self.gradients[0].operator.name.rpartition("_")[0]  # without the operand's number
        nest = Nest(
            name,
            tuple(layout.dtype for layout in outputs),
            tuple(layout.dtype for layout in layouts),
            (Loop((), tuple(stores)),),
            tuple(scalars),
        )
        strides = [layout.strides for layout in outputs]
        strides += [memory_order.broadcast_strides(layout.shape, layout.strides, shape) for layout in layouts]
        return lowered(
            Plan(
                [elementwise(nest, shape, strides)],
                outputs,
                layouts,
                "".join(kind for kind, _ in scalars),
                release=g._layout.numel * schedule.cost(nest) >= RELEASE_FROM,
            )
        )

    def _result(self, gradient: Gradient, g: Tensor, saved: Sequence[Any], leaves: Sequence[Expr]) -> tuple[Expr, Layout]:
        """One operand's gradient, as its own operator would compute it."""
        operands = [g, *[saved[k] for k in gradient.arguments]]
        computation, result = gradient.operator.dtypes(operands)
        own = cast(element(0, g._layout.dtype), compute_dtype(computation))
        expression = gradient.operator.expression([own, *[leaves[k] for k in gradient.arguments]], (), ())
        return cast(simplify(expression), compute_dtype(result)), gradient.operator.result_layout(operands, result)


@dataclass(frozen=True)
class Recipe:
    """What a node of this operator saves, and how it makes gradients. Sources: operand positions, or -1 for the result."""

    saves: tuple[int, ...]
    gradients: tuple[Any, ...]  # per operand: None (not wanted), IDENTITY, ZERO or a Gradient
    node_class: type
    joint: Joint | None = None  # the Gradients among them, if there are several
