"""Running passes in an order that keeps constraints. Stands on passes.infra.pass_base."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from queue import Queue
from typing import Any

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.passes.infra.pass_base import PassResult
from flambeau.nn import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

logger = logging.getLogger(__name__)


def pass_result_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that changes a module in place as a pass, whose result is a PassResult."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped_fn(gm: Any) -> PassResult:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        if isinstance(result, Module):
            return PassResult(result, True)  # type: ignore[arg-type]
        return PassResult(gm, True)

    if not inspect.isfunction(fn):
        wrapped_fn.__name__ = type(fn).__name__
    return wrapped_fn


def _validate_pass_schedule_constraint(
    constraint: Callable[[Callable, Callable], bool], passes: list[Callable[..., Any]]
) -> None:
    for i, one in enumerate(passes):
        for j, other in enumerate(passes[i + 1 :], i + 1):
            if not constraint(one, other):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {one} before {other} but found {one} at index {i} and "
                    f"{other} at index{j} in pass list."
                )


def _topological_sort_passes(
    passes: list[Callable[..., Any]], constraints: list[Callable[[Callable, Callable], bool]]
) -> list[Callable[..., Any]]:
    """The passes in an order that keeps the constraints. Raises RuntimeError if there is none."""
    if not constraints:
        return passes
    behind: dict[Any, list[Any]] = {p: [] for p in passes}
    waiting = dict.fromkeys(passes, 0)
    for one in passes:
        for other in passes:
            if one is not other and not all(holds(one, other) for holds in constraints):
                behind[other].append(one)
                waiting[one] += 1
    ready: Queue[Any] = Queue()
    for p in passes:
        if not waiting[p]:
            ready.put(p)
    order = []
    while not ready.empty():
        p = ready.get()
        order.append(p)
        for other in behind[p]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.put(other)
    cycle = [p for p in passes if p not in order]
    if cycle:
        raise RuntimeError(f"Circular dependency detected within the following passes: {cycle}")
    return order


def this_before_that_pass_constraint(this: Callable[..., Any], that: Callable[..., Any]) -> Callable[..., bool]:
    """The constraint that one pass runs before another."""

    def depends_on(a: Callable[..., Any], b: Callable[..., Any]) -> bool:
        return not (a == that and b == this)

    return depends_on


class PassManager:
    """PassManager(passes)(module) runs the passes one after the other, `steps` times or until nothing changes."""

    passes: list[Callable[[GraphModule], PassResult]]
    constraints: list[Callable[[Callable, Callable], bool]]
    _validated: bool = False
    steps: int = 1

    def __init__(
        self,
        passes: list[Callable[[GraphModule], PassResult]] | None = None,
        constraints: list[Callable[[Callable, Callable], bool]] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: Callable[..., Any]) -> None:
        """One more pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[..., bool]) -> None:
        """One more constraint(a, b): whether a may run before b."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise RuntimeError if the passes are in an order that breaks a constraint."""
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Put the passes in an order that keeps the constraints."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[..., Any]) -> None:
        """Have check(module) run behind the passes; it raises where something is wrong."""
        if list(inspect.signature(check).parameters) and len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign]

    def check(self, module: Module) -> None:
        """Nothing; add_checks puts another function here."""

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            modified = False
            for i, fn in enumerate(self.passes):
                name = fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
                logger.debug("Running pass '%s'", name)
                try:
                    result = fn(module)  # type: ignore[arg-type]
                    if not (isinstance(result, PassResult) or hasattr(result, "graph_module")):
                        raise TypeError(
                            f"The result of the pass {name} should be type PassResult. Please wrap it with pass_result_wrapper()"
                        )
                    module = result.graph_module
                    modified = modified or result.modified
                    if isinstance(module, GraphModule):
                        module.recompile()
                    if self.run_checks_after_each_pass:
                        self.check(module)
                except Exception as error:
                    earlier = [p.__name__ if inspect.isfunction(p) else type(p).__name__ for p in self.passes[:i]]
                    raise Exception(
                        f"An error occurred when running the '{name}' pass after the following passes: {earlier}"
                    ) from error
            changed = changed or modified
            if not modified:
                break
        return PassResult(module, changed)  # type: ignore[arg-type]
