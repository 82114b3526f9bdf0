"""Rules: which guards an operator asks for, and what its results' sizes are, in the form in which PyTorch has them.

A rule takes a Call and gives the sizes of each result, or None where `evidence` finds them. Here are the operators of no other
file: elementwise ones, products, joins, factories. Stands on state; used by run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau._subclasses.symbolic.state import expr_of, leaves, sizes_of
from flambeau.base.symbolic.expressions import ONE, Expr, as_expr, integer, product, rebuild, sum_of
from flambeau.core.tensor.tensor import Tensor

__all__ = ["RULES", "Call", "rule"]

#: By the name of an operator, or of an overload.
RULES: dict[str, Callable[[Call], Any]] = {}


def rule(*names: str) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Decorator: the function says what these operators' results are."""

    def keep(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return keep


class Call:
    """A call of an overload: its arguments by the names of the schema, tensors and numbers as they are given."""

    def __init__(self, env: Any, overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.env, self.overload, self.args, self.kwargs = env, overload, args, kwargs
        self.name: str = overload.overloadpacket.__name__
        self.is_pointwise = any(tag.name == "pointwise" for tag in overload.tags)
        arguments = overload._schema.arguments
        self.given = dict(zip([a.name for a in arguments], args)) | dict(kwargs)
        self._defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}

    def __getitem__(self, name: str) -> Any:
        return self.given[name] if name in self.given else self._defaults.get(name)

    def sizes(self, name: str = "self") -> tuple[Expr, ...]:
        """The sizes of a tensor that is given."""
        return sizes_of(self[name])

    def exprs(self, name: str) -> tuple[Expr, ...]:
        """Numbers that are given, as expressions."""
        found = self[name]
        return tuple([expr_of(x) for x in (found if isinstance(found, (list, tuple)) else [found])])

    def axis(self, name: str = "dim", of: str = "self", extra: int = 0) -> int:
        """A dimension that is given, counted from the front."""
        ndim = len(self.sizes(of)) + extra
        found = int(self[name] or 0)
        return found + ndim if found < 0 else found

    def holds(self, kind: str, a: Any, b: Any) -> bool:
        """Whether a relation holds; a guard where that depends on the example."""
        return bool(self.env.evaluate(rebuild(kind, (as_expr(a), as_expr(b)))))

    def needs(self, kind: str, a: Any, b: Any) -> bool:
        """`holds`, of what must be so: where only a run tells, it is checked there."""
        e = rebuild(kind, (as_expr(a), as_expr(b)))
        if self.env.unbacked_in(self.env.simplify(e)):
            return bool(self.env.guard_or_defer_runtime_assert(e, f"{self.overload} needs it"))
        return bool(self.env.evaluate(e))

    def surely(self, kind: str, a: Any, b: Any) -> bool:
        """Whether a relation holds for all values."""
        return self.env.decide(rebuild(kind, (as_expr(a), as_expr(b)))) is True


def broadcast(call: Call, shapes: Sequence[Sequence[Expr]]) -> tuple[Expr, ...]:
    """The sizes that operands are brought to; sizes that must be equal become so."""
    made = [ONE] * max(map(len, shapes), default=0)
    for shape in shapes:
        for i in range(-1, -len(shape) - 1, -1):
            size = shape[i]
            if size == ONE or size == made[i]:
                continue
            if made[i] == ONE or (not call.holds("Eq", made[i], size) and call.env.value_of(made[i]) == 1):
                made[i] = size
    return tuple(map(call.env.replace, made))


@rule("pointwise", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__")
def _pointwise(call: Call) -> Any:
    shapes = [sizes_of(x) for x in leaves([call.args, list(call.kwargs.values())]) if isinstance(x, Tensor)]
    lists = [x for x in call.args if isinstance(x, (list, tuple)) and any(isinstance(y, Tensor) for y in x)]
    if lists or len(call.overload._schema.returns) != 1:
        return None
    return [broadcast(call, shapes)]


@rule("layer_norm", "group_norm", "batch_norm", "instance_norm", "rms_norm", "dropout", "softmax", "log_softmax", "contiguous",
      "clone", "alias", "detach", "to", "lift_fresh_copy", "cumsum", "flip", "zeros_like", "ones_like", "empty_like", "full_like",
      "rand_like", "randn_like", "roll", "tril", "triu", "masked_fill", "bernoulli", "_to_copy", "fill", "softplus")  # fmt: skip
def _alike(call: Call) -> Any:
    name = "input" if "input" in call.given else "self"
    return [call.sizes(name)] if isinstance(call[name], Tensor) else None


@rule("cat", "concat", "concatenate")
def _joined(call: Call) -> Any:
    tensors = [sizes_of(t) for t in call["tensors"] if t._layout.shape != (0,)]
    if not tensors or isinstance(call["dim"], str):
        return None
    dim = (call["dim"] or 0) % len(tensors[0])
    made = list(tensors[0])
    for other in tensors[1:]:
        for i, (a, b) in enumerate(zip(made, other)):
            if i != dim and not call.holds("Eq", a, b):
                return None
    made[dim] = sum_of(*[t[dim] for t in tensors])
    return [tuple(map(call.env.replace, made))]


@rule("matmul", "mm", "bmm", "linear", "addmm", "baddbmm")
def _product(call: Call) -> Any:
    if call.name in ("addmm", "baddbmm"):
        return None
    first, second = "input" if call.name == "linear" else "self", {"linear": "weight", "matmul": "other"}.get(call.name, "mat2")
    a, b = call.sizes(first), call.sizes(second)
    if call.name == "linear":
        b = b[::-1]
    if not a or not b:
        return None
    if not call.holds("Eq", a[-1], b[-2] if len(b) > 1 else b[0]):
        return None
    rows, columns = a[:-1], b[-1:] if len(b) > 1 else ()
    batch = broadcast(call, [rows[:-1], b[:-2]]) if len(b) > 2 else rows[:-1]
    return [tuple(map(call.env.replace, (*batch, *rows[-1:], *columns)))]


@rule("scaled_dot_product_attention")
def _attention(call: Call) -> Any:
    query, key, value = (call.sizes(n) for n in ("query", "key", "value"))
    call.holds("Eq", query[-1], key[-1])
    call.holds("Eq", key[-2], value[-2])
    batches = [query[:-2], key[:-2], value[:-2]]
    if call["enable_gqa"]:  # groups of the query's heads share one of the others'
        batches = [query[:-2], (*key[:-3], ONE), (*value[:-3], ONE)]
    batch = broadcast(call, batches)
    if isinstance(call["attn_mask"], Tensor):
        for have, want in zip(call.sizes("attn_mask")[::-1], (key[-2], query[-2], *batch[::-1])):
            if have != ONE:
                call.holds("Eq", have, want)
    return [tuple(map(call.env.replace, (*batch, query[-2], value[-1])))]


@rule("arange")
def _range(call: Call) -> Any:
    start, end, step = (expr_of(call[n] if call[n] is not None else d) for n, d in (("start", 0), ("end", 0), ("step", 1)))
    if not (start.is_integer and end.is_integer and step.is_integer):
        return None
    return [((end - start) if step == ONE else (end - start + step - 1) // step,)]


@rule("zeros", "ones", "empty", "full", "rand", "randn", "new_zeros", "new_ones", "new_empty", "new_full", "randint")
def _made(call: Call) -> Any:
    if "size" not in call.given:
        return None
    for e in call.exprs("size"):
        call.env.guard_or_defer_runtime_assert(rebuild("Ge", (e, as_expr(0))), "a size isn't negative")
    return [call.exprs("size")]


def _equal(call: Call, a: Expr, b: Expr) -> bool:
    """Whether sizes are equal; asserted of those that only a run tells."""
    e = rebuild("Eq", (as_expr(a), as_expr(b)))
    if call.env.unbacked_in(e):
        return bool(call.env.guard_or_defer_runtime_assert(e, "sizes are equal"))
    return call.holds("Eq", a, b)


@rule("expand")
def _expanded(call: Call) -> Any:
    own, wanted = call.sizes(), call.exprs("size")
    made = list(wanted)
    for i in range(-1, -len(own) - 1, -1):
        if own[i] == ONE and call.env.unbacked_in(wanted[i]):
            call.env.guard_or_defer_runtime_assert(rebuild("Ge", (wanted[i], as_expr(0))), "a size isn't negative")
        if own[i] != ONE and wanted[i] != integer(-1) and not _equal(call, own[i], wanted[i]):
            return None
        if wanted[i] == integer(-1) or own[i] != ONE:
            made[i] = own[i]
    return [tuple(map(call.env.replace, made))]


@rule("repeat")
def _repeated(call: Call) -> Any:
    own, times = call.sizes(), call.exprs("repeats")
    padded = (ONE,) * (len(times) - len(own)) + own
    return [tuple([product(n, t) for n, t in zip(padded, times)])]


@rule("embedding")
def _rows(call: Call) -> Any:
    return [(*call.sizes("indices"), *call.sizes("weight")[1:])]
