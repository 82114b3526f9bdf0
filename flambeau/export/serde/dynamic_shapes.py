"""What a program says of dynamic sizes, as data: texts and numbers in containers, and the dimensions by name.

Stands on export.dynamic_shapes; used by torch._export.serde.dynamic_shapes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._dynamo.exc import UserError, UserErrorType
from flambeau.base.naming import called
from flambeau.base.symbolic.expressions import Expr, coefficient, symbol, terms
from flambeau.base.symbolic.ranges import int_oo
from flambeau.base.symbolic.reading import read
from flambeau.export.dims import Dim, _DerivedDim, _DimHint, _StaticDim
from flambeau.export.dynamic_shapes import specs_of

__all__ = ["DynamicShapesSpec", "RootDim", "_dump_dynamic_shapes", "_load_dynamic_shapes"]

_HOME = "_export.serde.dynamic_shapes"
_HINTS = {f"_DimHint.{name}": getattr(Dim, name) for name in ("AUTO", "DYNAMIC", "STATIC")}


@called(_HOME, "RootDim")
@dataclasses.dataclass
class RootDim:
    """A dimension: its range, and those that are so in terms of it, as texts."""

    min: int
    max: int | None
    derived: list[str]


@called(_HOME, "DynamicShapesSpec")
@dataclasses.dataclass
class DynamicShapesSpec:
    """dynamic_shapes, with texts for dimensions, and dimensions by name."""

    dynamic_shapes: Any
    dims: dict[str, RootDim]


def _dump_dynamic_shapes(
    dynamic_shapes: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, to_dict: bool | None = False
) -> DynamicShapesSpec | dict[str, Any]:
    """What is said of the sizes of inputs, as data; to_dict: in dicts and lists. UserError where it doesn't fit the inputs."""
    if dynamic_shapes is None:
        return {"dynamic_shapes": None, "dims": {}}  # also without to_dict, as in PyTorch
    dims: dict[str, dict[str, Any]] = {}
    said = tuple(dynamic_shapes.values() if isinstance(dynamic_shapes, dict) else dynamic_shapes)
    given = (*args, *(kwargs or {}).values())
    if len(said) != len(given):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` has "
            f"{len(given)} elements, but `dynamic_shapes` has {len(said)} elements",
            case_name="dynamic_shapes_validation",
        )
    each = iter(specs_of({str(i): x for i, x in enumerate(given)}, said))

    def written(x: Any) -> Any:
        if isinstance(x, dict):
            return {key: written(value) for key, value in x.items()}
        if type(x) in (list, tuple):
            return type(x)(map(written, x))
        if type(x) in pytree.SUPPORTED_NODES:
            return [written(child) for child in pytree.SUPPORTED_NODES[type(x)].flatten_fn(x)[0]]
        _, _, spec = next(each)
        return _shape_written(x, spec, dims) if isinstance(x, torch.Tensor) else None

    shapes = tuple(map(written, given))
    roots = {name: RootDim(d["min"], d["max"], sorted(d["derived"])) for name, d in dims.items()}
    if to_dict:
        return {"dynamic_shapes": shapes, "dims": {name: dataclasses.asdict(d) for name, d in roots.items()}}
    return DynamicShapesSpec(shapes, roots)


def _shape_written(tensor: torch.Tensor, spec: Any, dims: dict[str, dict[str, Any]]) -> list[Any]:
    if spec is None:
        return ["_DimHint.STATIC"] * tensor.dim()
    said = [spec.get(i) for i in range(tensor.dim())] if isinstance(spec, dict) else list(spec)
    return [_dim_written(n if d is None else d, dims) for d, n in zip(said, map(int, tensor.shape))]


def _dim_written(dim: Any, dims: dict[str, dict[str, Any]]) -> Any:
    if isinstance(dim, _DimHint):
        return f"_DimHint.{dim.type.name}"
    if isinstance(dim, _StaticDim):
        return dim.value
    if isinstance(dim, Dim):
        root = dim.root if isinstance(dim, _DerivedDim) else dim
        most = None if root.max == int_oo else int(root.max)
        known = dims.setdefault(root.__name__, {"min": int(root.min), "max": most, "derived": set()})
        if root is not dim:
            known["derived"].add(dim.__name__)
        return dim.__name__
    return dim


def _load_dynamic_shapes(spec: Any, from_dict: bool | None = False) -> Any:
    """What `_dump_dynamic_shapes` wrote. UserError for data of another form."""
    if from_dict:
        spec = _of_dict(spec)
    if not isinstance(spec, DynamicShapesSpec):
        raise _error(f"Expected `spec` to be a DynamicShapesSpec, got {type(spec)}")
    if spec.dynamic_shapes is None:
        return None
    known: dict[str, Dim] = {}
    for name, root in spec.dims.items():
        known[name] = made = Dim(name, min=root.min, max=root.max)
        for text in root.derived:
            known[text] = _derived(made, text)

    def loaded(x: Any) -> Any:
        if isinstance(x, str):
            if x in _HINTS:
                return _HINTS[x]
            if x not in known:
                raise _error(
                    "Expected dims in `spec['dynamic_shapes']` to be tracked in `spec['dims']`, got "
                    f"{x} which is not in {spec.dims.keys()}"
                )
            return known[x]
        if x is None or isinstance(x, int):
            return x
        raise _error(
            "Expected leaves in `spec['dynamic_shapes']` to be ints, None, Dim.AUTO/STATIC, symbols, "
            f" or derived expressions, got {x}"
        )

    return pytree.tree_map(loaded, spec.dynamic_shapes, is_leaf=lambda x: x is None)


def _of_dict(spec: Any) -> DynamicShapesSpec:
    if not isinstance(spec, dict):
        raise _error(f"With from_dict=True, expected `spec` to be a dict, got {type(spec)}")
    if set(spec) != {"dims", "dynamic_shapes"}:
        raise _error(
            f"With from_dict=True, expected `spec` to have keys `dims` and `dynamic_shapes`, instead found {spec.keys()}"
        )
    dims = {}
    for name, data in spec["dims"].items():
        if not isinstance(data["min"], int):
            raise _error(f"Expected dims in `spec['dims']` to map `min` to an int, got {name}: {data['min']}")
        if not (data["max"] is None or isinstance(data["max"], int)):
            raise _error(f"Expected dims in `spec['dims']` to map `max` to an int or None, got {name}: {data['max']}")
        dims[name] = RootDim(data["min"], data["max"], list(data["derived"]))
    return DynamicShapesSpec(spec["dynamic_shapes"], dims)


def _derived(root: Dim, text: str) -> Dim:
    """A dimension that is so in terms of another, of its text."""
    e: Expr = read(text)
    own = symbol(root.__name__)
    others = [s for s in e.free_symbols if s.name != root.__name__]
    if others or not e.free_symbols:
        raise _error(f"Expected derived expressions in to have {root.__name__} as the only free symbol, got {text}")
    e = e.xreplace(dict.fromkeys(e.free_symbols, own))
    step, rest = 0, 0
    for term in terms(e):
        number, factor = coefficient(term)
        if term.is_number:
            rest += int(term)
        elif factor == own:
            step += int(number)
        else:
            raise _error(f"Expected derived expressions to be linear expressions, got {e}")
    made = root if step == 1 else root * step
    return made + rest if rest else made


def _error(message: str) -> UserError:
    return UserError(UserErrorType.INVALID_INPUT, message)
