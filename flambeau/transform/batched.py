"""Batched tensors: what a function under vmap computes with.

A `Batched` shows the shape of one example; `value` holds all of them, the batch in dimension 0. Which rule answers a
call is found by the function's declaration: a rule of its own (the tables that the `batch_` modules fill), the rule of
its kind (pointwise, view), or its body, run on the batched tensors themselves. A function whose body reads memory has
no meaning for all examples at once: it is run for each of them and the results are stacked, with PyTorch's warning.
Stands on levels; used by flambeau.func.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from flambeau.base.layout import Layout
from flambeau.core.autograd.inplace import refuse_write
from flambeau.core.modes import modes
from flambeau.core.operator.pointwise import Pointwise
from flambeau.core.operator.publishing import OPERATORS
from flambeau.core.tensor import printing
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.views.cat import stack
from flambeau.transform import levels
from flambeau.transform.levels import (
    Level,
    Wrapped,
    becomes_a_view,
    blank,
    each_tensor,
    has_no_data,
    invoke,
    lacks_data,
    mapped,
    not_for_all,
    operator_of,
)

__all__ = ["Batched", "Batch", "Fallback", "RULES", "add_batch_dim", "has_rule", "remove_batch_dim", "rule"]


class Fallback:
    """What is done where no rule answers: whether examples may be run one by one, and with a warning."""

    allowed = True
    warned = True


Rule = Callable[["Batch", Callable, Sequence[Any], dict[str, Any]], Any]
RULES: dict[str, Rule] = {}  # by the name of the operator, function or method
OF_OPERATORS: set[str] = set()  # names whose rules are only for declared operators
VIEWS: dict[str, Rule] = {}  # of core.operator.view.declare, by name
DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{}. Please file "
    "an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
)
SLOW = (
    "There is a performance drop because we have not yet implemented the batching rule for {}: it runs once per example. Rewrite "
    "it in other operators if that matters."
)
UNBATCHED_TARGET = (
    "vmap: {}(self, *extra_args) is not possible because there exists a Tensor `other` in "
    "extra_args that has more "
    "elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
    "over in a vmap. Please try "
    "to use out-of-place operators instead of {}. If said operator is being called inside the PyTorch framework, "
    "please file a bug report instead."
)
_NO_DRAWS = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags "
    "on vmap or perform the randomness operation out of vmap"
)
_NO_PLAIN_DRAWS = (
    "vmap: We do not yet support calling random operations inside of vmap. Please perform random operations outside of vmap as a "
    "workaround"
)
UNBATCHED_DRAW = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If "
    "this is necessary for your usage, please file an issue with functorch."
)

NO_OUT = (
    "vmap: We do not support calling out variants of random operations inside of vmap. Please use non-out variants as a "
    "workaround"
)


def rule(*known: Callable | str, table: dict[str, Rule] = RULES, declared: bool = False) -> Callable[[Rule], Rule]:
    """Have a function (batch, function, args, kwargs) answer the calls of these operators, and of functions and methods with
    these names.

    declared: only those of declared operators; another function of such a name is made of it.
    """

    def add(function: Rule) -> Rule:
        for one in known:
            name = one if isinstance(one, str) else one.operator.name  # type: ignore[attr-defined]
            table[name] = function
            if declared:
                OF_OPERATORS.add(name)
        return function

    return add


class Way(NamedTuple):
    """How a batch answers the calls of a function: by a rule for all examples, in place of what another gives, by its body in
    other operators, or, with none of these, once for each example.
    """

    name: str
    rule: Rule | None = None
    takes_out: bool = False
    in_place: bool = False
    body: Callable | None = None


def way_of(function: Callable) -> Way:
    """How a batch answers the calls of a function."""
    operator = operator_of(function)
    if hasattr(function, "kind"):
        return Way(function.__name__, VIEWS.get(function.__name__) or VIEWS[""], takes_out=True)
    name = getattr(function, "__name__", "")
    if operator is not None and not name.endswith("_"):
        name = operator.name
    known = RULES.get(name)
    if known is not None and not isinstance(operator, Pointwise) and (operator is not None or name not in OF_OPERATORS):
        return Way(name, known, takes_out=True)
    if isinstance(operator, Pointwise):
        return Way(name, RULES["pointwise"])
    if name.endswith("_") and not name.endswith("__") and name[:-1]:
        return Way(name, in_place=True)
    if operator is not None and not operator.composite:
        return Way(name)
    return Way(name, body=operator.implementation if operator is not None else getattr(function, "__wrapped__", function))


def _out_of_place(function: Callable) -> Callable | None:
    name = function.__name__[:-1]
    return getattr(Tensor, name, None) or getattr(OPERATORS.get(name), "public", None)


def has_rule(function: Callable) -> bool:
    """Whether a batch has a rule for a function, be it one that refuses, or a body; other functions run once for each example."""
    way = way_of(function)
    if way.in_place:
        fresh = _out_of_place(function)
        return fresh is not None and has_rule(fresh)
    return way.rule is not None or way.body is not None


class Batched(Wrapped):
    """One example's view of a tensor of examples."""

    value: Any
    level: Batch

    @property
    def held(self) -> Any:
        return self.value

    @property
    def data(self) -> Any:  # type: ignore[override]
        """It without its graph; RuntimeError where vmap is the innermost transform."""
        if levels.stack.levels and levels.stack.levels[-1] is self.level:
            raise RuntimeError("accessing `data` under vmap transform is not allowed")
        return self.level.wrap(self.value.data)

    @data.setter
    def data(self, value: Any) -> None:
        raise RuntimeError("mutating directly with `.data` under vmap transform is not allowed.")

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return printing.inside_transforms(self) or f"BatchedTensor(lvl=0, bdim=0, value=\n{self.value!r}\n)"

    __str__ = __repr__  # type: ignore[assignment]

    def __format__(self, specification: str) -> str:
        return format(self.item(), specification) if not self._layout.ndim else repr(self)  # type: ignore[attr-defined]


class Batch(Level):
    """A vmap in progress: how many examples, and what random operators do ("error", "different", "same").

    plain: it belongs to no function transform of the program's, as those of gradcheck don't, and restricts nothing else.
    """

    warns = True  # where examples are run one by one

    def __init__(self, size: int, randomness: str = "error", plain: bool = False) -> None:
        self.size, self.randomness, self.plain = size, randomness, plain

    def __enter__(self) -> Batch:
        super().__enter__()
        self.before, modes.local.draws = modes.local.draws, self
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        modes.local.draws = self.before

    # ---- between one example and all of them
    def wrap(self, value: Any) -> Any:
        """All examples (the batch in dimension 0) as one; what is no tensor stays as it is."""
        if not isinstance(value, Tensor):
            return mapped(self.wrap, value) if isinstance(value, (list, tuple, dict)) else value
        layout = value._layout
        made = blank(Batched, Layout.of(layout.shape[1:], layout.strides[1:], layout.dtype, layout.device))
        made.level, made.value = self, value
        return made

    def has(self, x: Any) -> bool:
        """Whether examples differ in this tensor."""
        return isinstance(x, Batched) and x.level is self

    def lift(self, x: Any) -> Any:
        """All examples of a tensor, the batch in dimension 0; one that is the same for all is expanded."""
        if isinstance(x, Batched) and x.level is self:
            return x.value
        return x.unsqueeze(0).expand(self.size, *x._layout.shape)

    def aligned(self, x: Any, ndim: int) -> Any:
        """`lift`, for one example of at least `ndim` dimensions: those missing are put in front, with size 1.

        A tensor that is the same for all examples isn't touched: broadcasting does the same.
        """
        if not self.has(x):
            return x
        value = x.value
        missing = ndim - x._layout.ndim
        if missing <= 0:
            return value
        return value.reshape(value._layout.shape[:1] + (1,) * missing + value._layout.shape[1:])

    # ---- random numbers
    def allow_draws(self) -> None:
        """RuntimeError in a vmap that allows no random operators."""
        if self.randomness == "error":
            raise RuntimeError(_NO_PLAIN_DRAWS if self.plain else _NO_DRAWS)

    def drawn(self) -> None:
        """What drawing from a generator asks first: it was not arranged that examples get numbers of their own."""
        self.allow_draws()
        if self.randomness == "different":
            raise RuntimeError(UNBATCHED_DRAW)

    @contextlib.contextmanager
    def draws_outside(self) -> Iterator[None]:
        """A block whose draws belong to the vmap outside of this one."""
        modes.local.draws = self.before
        try:
            yield
        finally:
            modes.local.draws = self

    def draw(self, make: Callable[..., Any], out: Any = None) -> Any:
        """What a random factory makes: make(*sizes in front) is called for one example, or with the batch in front."""
        self.allow_draws()
        if out is not None:
            raise RuntimeError(NO_OUT)
        with self.draws_outside():
            return make() if self.randomness == "same" else self.wrap(make(self.size))

    def mask(self, function: Callable, input: Any, shape: Any, keep: float) -> Any:
        """The mask of a dropout of `input`: function(input, shape or None, keep)."""
        self.allow_draws()
        with self.draws_outside():
            if self.randomness == "same":
                return function(input.value.select(0, 0) if self.has(input) else input, shape, keep)
            return self.wrap(function(self.lift(input), None if shape is None else (self.size, *shape), keep))

    # ---- answering
    def answer(self, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if hasattr(function, "answer_level"):
            return function.answer_level(self, args, kwargs)
        way = way_of(function)
        if way.rule is not None and (way.takes_out or kwargs.get("out") is None):
            return way.rule(self, function, args, kwargs)
        if kwargs.get("out") is not None:
            raise RuntimeError(
                f"Batching rule not implemented for aten::{way.name}.out; the fallback path doesn't work on out= or view ops."
            )
        if way.name == "__get__":
            return self.answer(function.__self__.fget, args, kwargs)  # type: ignore[attr-defined]
        if way.in_place:
            return self.in_place(function, args, kwargs)
        body = way.body
        if body is None:
            return self.loop(function, args, kwargs)
        try:
            result = body(*args, **kwargs)
        except RuntimeError as error:
            if not (has_no_data(error) or getattr(error, "for_one", False)):
                raise
        else:
            if not lacks_data(result):
                return result
        return self.loop(function, args, kwargs)

    def in_place(self, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """name_(self, ...) as name(self, ...) written into self."""
        target = args[0]
        self.check_target(target)
        fresh = _out_of_place(function)
        assert fresh is not None
        made = invoke(fresh, (target, *args[1:]), kwargs)
        if becomes_a_view(function.__name__):
            target.value, target._layout = made.value, made._layout
            return target
        return target.copy_(made)

    def check_target(self, target: Any, name: str = "inplace arithmetic") -> None:
        """RuntimeError if a tensor that is the same for all examples would have to hold different ones."""
        if not self.has(target):
            raise self.unfit(target, name)

    def unfit(self, target: Any, name: str) -> RuntimeError:
        """The error of a write of different examples to a tensor that is the same for all."""
        if not isinstance(target, Wrapped):
            refuse_write(target)
        return not_for_all(UNBATCHED_TARGET.format(name, name))

    def loop(self, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The call made for each example, the results stacked."""
        name = getattr(function, "__name__", repr(function))
        if not Fallback.allowed:
            raise RuntimeError(f"aten::{name} hit the vmap fallback which is currently disabled")
        if self.warns and Fallback.warned:
            warnings.warn(SLOW.format(name), UserWarning, stacklevel=6)
        results = []
        for i in range(self.size):

            def example(x: Any, i: int = i) -> Any:
                return x.value.select(0, i) if self.has(x) else x

            results.append(invoke(function, mapped(example, tuple(args)), mapped(example, kwargs)))
        if not results:
            raise RuntimeError(f"{name}: a batch of size 0 can't be computed example by example")
        return self.stacked(results)

    def stacked(self, results: list[Any]) -> Any:
        """Results of the examples, of any structure, as one batched result."""
        first = results[0]
        if isinstance(first, Tensor):
            return self.wrap(stack(results, 0))
        if isinstance(first, (list, tuple)) and any(True for _ in each_tensor(first)):
            made = [self.stacked([x[i] for x in results]) for i in range(len(first))]
            return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)
        return first


def _batch_at(level: int) -> Batch:
    if not 0 < level <= len(levels.stack.levels) or not isinstance(levels.stack.levels[level - 1], Batch):
        raise RuntimeError(f"level {level} is no vmap in progress")
    return levels.stack.levels[level - 1]  # type: ignore[return-value]


def add_batch_dim(tensor: Tensor, batch_dim: int, level: int) -> Tensor:
    """One example's view of a tensor whose dimension batch_dim is the batch of the vmap of that depth."""
    return _batch_at(level).wrap(tensor.movedim(batch_dim, 0) if batch_dim else tensor)  # type: ignore[attr-defined]


def remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """All examples of a tensor, the batch of the vmap of that depth at out_dim."""
    lifted = _batch_at(level).lift(tensor)
    return lifted.movedim(0, out_dim) if out_dim else lifted
