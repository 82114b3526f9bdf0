"""Calling an operator again at other sizes: whether its results are what was said of them, and what they are where nothing was
said.

What an operator needs that the example happens to fulfil, two sizes that are equal or one that is a certain number, shows in that
it fails elsewhere; it becomes a guard. Stands on state; used by run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flambeau._subclasses.symbolic.fitting import Disagreement, fitted
from flambeau._subclasses.symbolic.state import expr_of, leaves, offset_of, plain_sizes, sizes_of, stride_exprs, strides_of
from flambeau.base.symbolic.expressions import Expr, as_expr, integer, rebuild
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.core.modes import modes
from flambeau.core.tensor import storage
from flambeau.core.tensor.tensor import Tensor, tensor_from

__all__ = ["Evidence"]

Point = Mapping[Expr, Any]


class Evidence:
    """An operator's call, which can be made at other sizes. mode: the fake tensor mode of its results."""

    def __init__(self, env: Any, mode: Any, call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.env, self.mode, self.call, self.args, self.kwargs = env, mode, call, tuple(args), dict(kwargs)
        self.known: dict[tuple[Any, ...], list[Any] | None] = {}

    # ---- calls

    def at(self, point: Point) -> list[Any] | None:
        """(shape, strides, offset, dtype) of each result at a point; None if it fails there."""
        key = tuple(sorted((s.name, v) for s, v in point.items()))
        if key not in self.known:
            self.known[key] = self._called(point)
        return self.known[key]

    def _called(self, point: Point) -> list[Any] | None:
        before, modes.local.grad = modes.local.grad, False
        try:
            with self.mode, plain_sizes():
                made = self.call(*self._moved(self.args, point), **{k: self._moved(v, point) for k, v in self.kwargs.items()})
        except Exception:  # whatever it is that doesn't work with these sizes
            return None
        finally:
            modes.local.grad = before
        return [_facts(x) for x in leaves([made])]

    def _moved(self, value: Any, point: Point) -> Any:
        """An argument as it is at a point."""
        if isinstance(value, Tensor):
            shape, strides = (tuple([self._number(e, point) for e in of(value)]) for of in (sizes_of, strides_of))
            offset = self._number(offset_of(value), point)
            layout = value._layout
            moved = type(layout).of(shape, strides, layout.dtype, layout.device, layout.flavor)
            extent = offset + sum((n - 1) * s for n, s in zip(shape, strides)) + 1
            return tensor_from(storage.empty_without_memory(max(extent, 1) * layout.dtype.itemsize), offset, moved)
        if is_symbolic_number(value):
            return self._number(value.node.expr, point)
        if isinstance(value, (list, tuple)):
            return [self._moved(x, point) for x in value]
        return value

    def _number(self, e: Expr, point: Point) -> Any:
        made = self.env.replace(e).xreplace(point)
        return made.kind == "true" if made.kind in ("true", "false") else made.value

    # ---- what is said of the results

    def confirm(self, results: Sequence[Any], said: Sequence[Any]) -> None:
        """Raise Disagreement unless results have these sizes, and the dtypes of the example, at other points."""
        for point in self.points(2):
            found = self.at(point)
            if found is None or len(found) != len(said):
                raise Disagreement
            for sizes, now, result in zip(said, found, results):
                if sizes is None or now is None:
                    continue
                if [self._number(e, point) for e in sizes] != list(now[0]) or now[3] is not result.dtype:
                    raise Disagreement

    def points(self, count: int, assuming: Sequence[Expr] = ()) -> list[Point]:
        """Values of the symbols that the call depends on, which fulfil the guards, and for which the call works: it may need one
        size to be less than another.
        """
        symbols = self.symbols()
        if not symbols:
            return []
        found = []
        for point in self.env.sample_points(symbols, 2 * count + 2, assuming=tuple(assuming)):
            if self.at(point) is not None:
                found.append(point)
                if len(found) == count:
                    break
        return found

    def symbols(self) -> set[Expr]:
        """The symbols that the call depends on."""
        found: set[Expr] = set()
        for e in self.expressions():
            found |= e.free_symbols
        return found

    def expressions(self) -> list[Expr]:
        """The sizes and numbers that the call is given, each once."""
        found: dict[Expr, None] = {}
        for x in leaves([self.args, list(self.kwargs.values())]):
            if isinstance(x, Tensor):
                found.update(dict.fromkeys([*sizes_of(x), *strides_of(x), offset_of(x)]))
            elif is_symbolic_number(x):
                found[self.env.replace(expr_of(x))] = None
        return [e for e in found if not e.is_number]

    # ---- what the call needs

    def require(self, example: Sequence[Any]) -> None:
        """Add the guards without which the call fails, or has other results, elsewhere. Raise Disagreement if none is found."""
        symbols = self.symbols()
        if symbols and not self.env.sample_points(symbols, 2):
            self._specialize(symbols)
        if self._works((), example):
            return
        candidates = list(self._candidates())
        for count in (1, 2, 3):
            for chosen in itertools.combinations(candidates if count == 1 else candidates[:16], count):
                if self._works(chosen, example):
                    for condition in chosen:
                        self.env.evaluate(condition)
                    return
        raise Disagreement

    def _specialize(self, symbols: set[Expr]) -> None:
        """Nothing is known of other sizes, so the call is recorded for those of the example."""
        if any(self.env.is_unbacked_symint(s) for s in symbols):
            raise Disagreement
        for s in sorted(symbols, key=lambda s: s.name):
            self.env.evaluate(rebuild("Eq", (s, as_expr(self.env.value_of(s)))))

    def _works(self, assuming: Sequence[Expr], example: Sequence[Any]) -> bool:
        """Whether the call works at other sizes, and gives as many results of the same kinds."""
        points = self.points(2, assuming)
        if not points and self.env.sample_points(self.symbols(), 2, assuming=tuple(assuming)):
            return False
        for point in points:
            found = self.at(point)
            if found is None or len(found) != len(example):
                return False
            for now, then in zip(found, example):
                if (now is None) != (not isinstance(then, Tensor)):
                    return False
                if now is not None and (now[3] is not then.dtype or len(now[0]) != then._layout.ndim):
                    return False
        return True

    def _candidates(self) -> Iterator[Expr]:
        """Conditions that hold for the example: sizes are equal, are multiples, or are what they are."""
        sizes: dict[Expr, None] = {}
        numbers: dict[int, None] = {}
        for x in leaves([self.args, list(self.kwargs.values())]):
            if isinstance(x, Tensor):
                for e in sizes_of(x):
                    (numbers if e.is_number else sizes).__setitem__(e.value if e.is_number else e, None)  # type: ignore[index]
            elif is_symbolic_number(x):
                sizes[self.env.replace(expr_of(x))] = None
            elif isinstance(x, int) and not isinstance(x, bool):
                numbers[x] = None
        found = {e: self.env.value_of(e) for e in sizes if not e.is_number}
        for a, b in itertools.combinations(found, 2):
            if found[a] == found[b]:
                yield rebuild("Eq", (a, b))
        for e, value in found.items():
            if value in numbers:
                yield rebuild("Eq", (e, as_expr(value)))
        for e, value in found.items():
            for n in numbers:
                if n > 1 and value % n == 0:
                    yield rebuild("Eq", (rebuild("Mod", (e, integer(n))), integer(0)))
        for e, value in found.items():
            yield rebuild("Eq", (e, as_expr(value)))

    # ---- what the results are

    def sizes(self, result: Tensor, at: int) -> list[Expr]:
        """The sizes of a result as expressions of those that the call is given. Raise Disagreement if none is found."""
        points = self.points(3)
        found = [self.at(p) for p in points]
        shapes = [f[at][0] for f in found if f is not None]
        return [self._fit(n, [s[i] for s in shapes], points) for i, n in enumerate(result._layout.shape)]

    def _fit(self, here: int, there: Sequence[int], points: Sequence[Point]) -> Expr:
        def values(e: Expr) -> list[int]:
            return [self.env.value_of(e), *[self._number(e, p) for p in points]]

        return fitted([here, *there], self.expressions(), values)

    def strides(self, result: Tensor, at: int, sizes: Sequence[Expr]) -> list[Expr] | None:
        """The strides of a result where they aren't those of a dense tensor; None where they are."""
        points = self.points(2)
        found = [self.at(p) for p in points]
        guess = stride_exprs(sizes, result._layout.shape, result._layout.strides)
        if all(f is not None and [self._number(e, p) for e in guess] == list(f[at][1]) for f, p in zip(found, points)):
            return guess
        if any(f is None for f in found):
            return None
        wanted = [f[at][1] for f in found if f is not None]
        try:
            return [self._fit_stride(n, [w[i] for w in wanted], points, guess) for i, n in enumerate(result._layout.strides)]
        except Disagreement:
            return guess

    def offset(self, result: Tensor, at: int) -> Expr:
        """The offset of a result in its storage."""
        points = self.points(2)
        found = [self.at(p) for p in points]
        if any(f is None for f in found):
            return integer(result._offset)
        there = [f[at][2] for f in found if f is not None]
        from_end = self._place_from_end([result._offset, *there], points)
        return self._fit(result._offset, there, points) if from_end is None else from_end

    def _place_from_end(self, wanted: Sequence[int], points: Sequence[Point]) -> Expr | None:
        """An offset that is so many places before the end of a dimension, as x[:, -1] has it; None where it isn't."""

        def values(e: Expr) -> list[int]:
            return [self.env.value_of(e), *[self._number(e, p) for p in points]]

        for x in leaves([self.args]):
            if not isinstance(x, Tensor):
                continue
            start = values(offset_of(x))
            for size, stride in zip(sizes_of(x), strides_of(x)):
                sizes, steps = values(size), values(stride)
                if size.is_number or not all(steps) or any((w - o) % s for w, o, s in zip(wanted, start, steps)):
                    continue
                before_end = {n - (w - o) // s for w, o, s, n in zip(wanted, start, steps, sizes)}
                if len(before_end) == 1 and before_end != {0}:
                    return offset_of(x) + (size + -before_end.pop()) * stride
        return None

    def _fit_stride(self, here: int, there: Sequence[int], points: Sequence[Point], guess: Sequence[Expr]) -> Expr:
        for e in guess:
            if self.env.value_of(e) == here and [self._number(e, p) for p in points] == list(there):
                return e
        return self._fit(here, there, points)


def _facts(x: Any) -> Any:
    return (x._layout.shape, x._layout.strides, x._offset, x._layout.dtype) if isinstance(x, Tensor) else None
