"""torch.export.dynamic_shapes: which dimensions of the inputs are dynamic, and the ways to say so.

`specs_of` brings what a program says into one form: for each leaf of the inputs, in the order of the arguments, what is said of
it. Stands on dims and pytrees; used by `_export`.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._dynamo.exc import UserError, UserErrorType
from flambeau.base.symbolic.expressions import Expr, coefficient, terms
from flambeau.base.symbolic.reading import read
from flambeau.export.dims import Dim, _DerivedDim, _DimHint, _StaticDim, dims

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims", "refine_dynamic_shapes_from_suggested_fixes"]

log = logging.getLogger(__name__)
_CONTAINERS = (list, tuple, dict)


def combined_args(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments of a call by the names of the signature."""
    if isinstance(mod, torch.nn.Module):
        function = mod.forward
    else:
        function = mod.module().forward if hasattr(mod, "graph_signature") else mod
    return dict(inspect.signature(function).bind(*args, **(kwargs or {})).arguments)


def specs_of(combined: dict[str, Any], dynamic_shapes: Any) -> list[tuple[pytree.KeyPath, Any, Any]]:
    """(path, leaf, what is said of it) for the leaves of the inputs; UserError where the structures differ or a word is wrong."""
    tree: Any = combined
    said = dynamic_shapes
    if isinstance(said, (tuple, list)):
        tree = type(said)(combined.values())
    if said is None or len(said) == 0:
        return [(path, leaf, None) for path, leaf in pytree.tree_leaves_with_path(combined)]
    if not isinstance(said, (dict, tuple, list)):
        raise AssertionError(f"expected dynamic_shapes to be dict, tuple, or list, got {type(said)}")
    if isinstance(said, dict):
        _check_names(combined, said)
    found: list[tuple[pytree.KeyPath, Any, Any]] = []
    _walk(tree, said, (), found)
    bounds: dict[str, tuple[Any, Any]] = {}
    for path, leaf, spec in found:
        _check_leaf(path, leaf, spec, bounds)
    return found


def _mismatch(message: str) -> UserError:
    return UserError(
        UserErrorType.INVALID_INPUT,
        f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: {message}",
        case_name="dynamic_shapes_validation",
    )


def _check_names(combined: dict[str, Any], said: dict[str, Any]) -> None:
    if sorted(said) == sorted(combined):
        return
    names = list(combined)
    message = (
        f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {names} of `inputs`, but here "
        f"they "
        f"are {list(said)}. "
    )
    if len(names) == 1 and names[0] not in said and isinstance(combined[names[0]], dict):
        message += (
            "Since here `inputs` is a list/tuple enclosing a single dict, maybe you just forgot to enclose `dynamic_shapes` in a "
            "list/tuple?"
        )
    else:
        message += (
            "Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` as a list/tuple matching "
            "`inputs`."
        )
    raise UserError(UserErrorType.INVALID_INPUT, message, case_name="dynamic_shapes_validation")


def _children(tree: Any) -> list[tuple[Any, Any]] | None:
    """(key, child) of a container; None for a leaf."""
    if isinstance(tree, dict) and type(tree) in pytree.SUPPORTED_NODES:
        return [(pytree.MappingKey(k), v) for k, v in tree.items()]
    if type(tree) in (list, tuple) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return [(pytree.SequenceKey(i), v) for i, v in enumerate(tree)]
    if type(tree) in pytree.SUPPORTED_NODES:
        return [(pytree.SequenceKey(i), v) for i, v in enumerate(pytree.SUPPORTED_NODES[type(tree)].flatten_fn(tree)[0])]
    return None


def _walk(tree: Any, said: Any, path: tuple[Any, ...], found: list[tuple[Any, Any, Any]]) -> None:
    children = _children(tree)
    if children is None:
        found.append((path, tree, said))
        return
    place = pytree.keystr(path)
    own = type(tree) not in _CONTAINERS
    if not isinstance(said, _CONTAINERS):
        if said is None and not children:
            return
        raise _mismatch(f"`inputs{place}` is a {type(tree)}, but `dynamic_shapes{place}` is not")
    if not own and type(said) is not type(tree):
        raise _mismatch(f"`inputs{place}` is a {type(tree)}, but `dynamic_shapes{place}` is a {type(said)}")
    if len(said) != len(children):
        raise _mismatch(f"`inputs{place}` has {len(children)} elements, but `dynamic_shapes{place}` has {len(said)} elements")
    if isinstance(tree, dict) and isinstance(said, dict):
        if set(said) != set(tree):
            raise _mismatch(f"`inputs{place}` has keys {list(tree)}, but `dynamic_shapes{place}` has keys {list(said)}")
        each = [said[key.key] for key, _ in children]
    else:
        each = list(said.values()) if isinstance(said, dict) else list(said)
    for (key, child), one in zip(children, each):
        _walk(child, one, (*path, key), found)


def _check_leaf(path: tuple[Any, ...], leaf: Any, spec: Any, bounds: dict[str, tuple[Any, Any]]) -> None:
    place = pytree.keystr(path)
    if isinstance(leaf, torch.Tensor):
        _check_tensor(place, leaf, spec, bounds)
    elif isinstance(leaf, int) and not isinstance(leaf, bool):
        if isinstance(spec, Dim):
            raise ValueError(
                "Unable to specify input integers as dynamic through named Dims. Please use Dim.AUTO/DYNAMIC instead."
            )
        if not isinstance(spec, (int, _DimHint, type(None))):
            raise AssertionError(f"expected dynamic_shape to be None, int, or _DimHint for _IntWrapper, got {type(spec)}")
    elif spec is not None:
        raise _refused(
            f"Cannot associate shape {spec} specified at `dynamic_shapes{place}` to non-tensor type {type(leaf)} at "
            f"`inputs{place}` (expected None)"
        )


def _check_form(dim: Dim, i: int, size: int) -> None:
    """Refuse a size that a dimension, which is so in terms of another, doesn't take."""
    if isinstance(dim, _DerivedDim):
        least, step = dim.fn(0), dim.fn(1) - dim.fn(0)
        if (int(size) - least) % step:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"Expected shape[{i}] = {size} of input Tensor to be of the form {dim.__name__}, where {dim.root.__name__} is an "
                "integer",
            )


def _refused(message: str) -> UserError:
    return UserError(UserErrorType.INVALID_INPUT, message, case_name="dynamic_shapes_validation")


def _check_tensor(place: str, tensor: torch.Tensor, spec: Any, bounds: dict[str, tuple[Any, Any]]) -> None:
    if spec is None:
        return
    if not isinstance(spec, (dict, list, tuple)):
        raise _refused(
            f"Unexpected input tensor shape {spec} specified at `dynamic_shapes{place}` (expected either a list/tuple of "
            f"dimensions, "
            "or a dict mapping indices to dimensions, where each dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or "
            "Dim.DYNAMIC)"
        )
    if not isinstance(spec, dict) and len(spec) != tensor.dim():
        raise _refused(
            f"Expected dynamic shape spec {spec} specified at `dynamic_shapes{place}` to have the same length as the actual "
            f"tensor "
            f"shape {tensor.shape} (expected {tensor.dim()}, but got {len(spec)} instead)"
        )
    for i, dim in spec.items() if isinstance(spec, dict) else enumerate(spec):
        if isinstance(dim, Dim):
            _check_form(dim, i, tensor.shape[i])
            low, high = bounds.setdefault(dim.__name__, (dim.min, dim.max))
            if (low, high) != (dim.min, dim.max):
                raise UserError(
                    UserErrorType.INVALID_INPUT,
                    f"Found different definitions {Dim._readable(dim.__name__, low, high)} and "
                    f"{Dim._readable(dim.__name__, dim.min, dim.max)} for the same symbolic dimension {dim}!",
                )
        elif dim is None:
            log.warning("Using None as a dynamic shape dimension is deprecated. Please use Dim.STATIC instead")
        elif not isinstance(dim, (int, _DimHint)):
            where = f"mapped to index {i}" if isinstance(spec, dict) else f"#{i}"
            gap = " " if isinstance(spec, dict) else ""
            raise _refused(
                f"Unexpected dimension {where} in input tensor shape {spec} specified at `dynamic_shapes{place}` (expected "
                f"None, an "
                f"int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC, {gap}but got {dim!r} instead)"
            )


def dimensions_of(tensor: torch.Tensor, spec: Any) -> list[Any]:
    """For each dimension of a tensor a Dim, a hint, or None for a static one."""
    each = [spec.get(i) if isinstance(spec, dict) else spec[i] if spec is not None else None for i in range(tensor.dim())]
    return [_StaticDim(d) if isinstance(d, int) else d for d in each]


# ---------------------------------------------------------------- other ways to say it


class ShapesCollection:
    """What is said of dimensions by tensor: `collection[x] = {0: dim}`; torch.export takes it as dynamic_shapes."""

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, torch.Tensor):
            raise AssertionError(f"Cannot assign shape to non-tensor or non-_IntWrapper type {type(t)}")
        before = self._shapes.setdefault(id(t), shape)
        if before is not shape and before != shape:
            raise AssertionError(f"Shapes assigned to input do not match: expected {before}, got {shape}")

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), {})

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """The same by arguments. ValueError for tensors that aren't among them."""
        met: set[int] = set()

        def spec(leaf: Any) -> Any:
            if id(leaf) in self._shapes:
                met.add(id(leaf))
            return self._shapes.get(id(leaf))

        made = _mapped(spec, combined_args(m, args, kwargs))
        if met != set(self._shapes):
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when passing "
                "them as "
                "args? Maybe such tensors are contained in classes that were not registered with pytree?"
            )
        return made


def _mapped(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """A tree of lists, tuples and dicts with what a function makes of the leaves."""
    children = _children(tree)
    if children is None:
        return function(tree, *others)
    rest = [[child for _, child in _children(o) or ()] for o in others]
    made = [_mapped(function, child, *[r[i] for r in rest]) for i, (_, child) in enumerate(children)]
    if isinstance(tree, dict):
        return dict(zip(tree, made))
    return tuple(made) if type(tree) is tuple else made


class AdditionalInputs:
    """Further inputs, `add(args, kwargs)`: dimensions in which they differ from the example are dynamic."""

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any] | None]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Inputs that the program is to run on. AssertionError unless a tuple and a dict."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """What is said of dimensions by arguments. ValueError for inputs that differ in something else."""

        def spec(leaf: Any, *others: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and all(isinstance(o, torch.Tensor) and o.dim() == leaf.dim() for o in others):
                return tuple([_varied(n, *[o.shape[i] for o in others]) for i, n in enumerate(leaf.shape)])
            return _varied(leaf, *others)

        return _mapped(spec, combined_args(m, args, kwargs), *[combined_args(m, *e) for e in self._examples])

    def verify(self, ep: Any) -> None:
        """Check that a program takes all these inputs."""
        from flambeau.export._unlift import check_inputs

        module = ep.module()
        for args, kwargs in self._examples:
            check_inputs(module, args, kwargs or {})


def _varied(value: Any, *others: Any) -> Any:
    if not all(type(o) is type(value) for o in others):
        raise ValueError(
            f"The following inputs were found to have differing types, so they cannot be marked as dynamic: {(value, *others)}."
        )
    same = all(bool(torch.equal(o, value)) if isinstance(value, torch.Tensor) else o == value for o in others)
    if isinstance(value, int) and not isinstance(value, bool):
        return None if same else Dim.DYNAMIC
    if not same:
        raise ValueError(
            f"The following inputs were found to have differing values, but they cannot be marked as dynamic: {(value, *others)}."
        )
    return None


# ---------------------------------------------------------------- suggested fixes


def dims_by_name(dynamic_shapes: Any) -> dict[str, Dim]:
    """The Dims of a specification, and the roots of derived ones, by name."""
    found: dict[str, Dim] = {}
    for x in pytree.tree_leaves(dynamic_shapes, is_leaf=lambda x: isinstance(x, (Dim, _DimHint))):
        if isinstance(x, Dim):
            found[x.__name__] = x
            if isinstance(x, _DerivedDim):
                found[x.root.__name__] = x.root
    return found


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes: Any) -> Any:
    """dynamic_shapes as the suggested fixes in the text of an error say. UserError if the text has none."""
    _, found, fixes = msg.partition("Suggested fixes:")
    if not found:
        raise UserError(
            UserErrorType.INVALID_INPUT,
            "Suggested fixes not found in error message given to refine_dynamic_shapes_from_suggested_fixes()",
        )
    known = dims_by_name(dynamic_shapes)
    made: dict[str, Any] = {}
    for line in fixes.strip().splitlines():
        name, equals, text = line.strip().partition(" = ")
        if not equals:
            break
        match = re.fullmatch(r"Dim\('(\w+)'(?:, min=(\d+))?(?:, max=(\d+|oo))?\)", text)
        if match:
            low, high = match[2], match[3]
            made[name] = Dim(match[1], min=low and int(low), max=None if high in (None, "oo") else int(high))  # type: ignore[arg-type]
        else:
            made[name] = read(text)

    def resolved(fix: Any) -> Any:
        if not isinstance(fix, Expr):
            return fix
        if fix.is_number:
            return int(fix)
        (root,) = fix.free_symbols
        dim = resolved(made[root.name]) if root.name in made else known[root.name]
        for t in sorted(terms(fix), key=lambda t: t.is_number):
            number, rest = coefficient(t)
            dim = dim + int(number) if rest == 1 else dim * int(number) if number != 1 else dim
        return dim

    def fixed(dim: Any) -> Any:
        if isinstance(dim, _DerivedDim) and dim.__name__ not in made and dim.root.__name__ in made:
            return dim.fn(resolved(made[dim.root.__name__]))
        return resolved(made[dim.__name__]) if isinstance(dim, Dim) and dim.__name__ in made else dim

    return pytree.tree_map(fixed, dynamic_shapes, is_leaf=lambda x: isinstance(x, (Dim, _DimHint)))
