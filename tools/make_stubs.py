"""Write the type stubs of the namespace from what is registered: flambeau/__init__.pyi and flambeau/core/tensor/tensor.pyi.

Operators are attached when flambeau is imported, which editors and mypy can't see; the stubs tell them.
`python tools/make_stubs.py` writes the files, `--check` says whether they are up to date (a test does that).
"""

from __future__ import annotations

import inspect
import keyword
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import flambeau  # noqa: E402
from flambeau.base import dtype as dtypes  # noqa: E402
from flambeau.core.operator.arguments import MISSING  # noqa: E402
from flambeau.core.tensor.tensor import Tensor  # noqa: E402

KNOWN = {
    "Tensor": "Tensor",
    "Tensor | None": "Tensor | None",
    "Operand": "Tensor | complex",
    "Number": "complex",
    "Tensors": "Sequence[Tensor]",
    "Sequence[Tensor]": "Sequence[Tensor]",
    "int": "int",
    "int | None": "int | None",
    "float": "float",
    "float | None": "float | None",
    "bool": "bool",
    "bool | None": "bool | None",
    "str": "str",
    "DType | None": "dtype | None",
    "DType": "dtype",
    "Generator | None": "Any",
}
HEAD = '''"""{doc} Written by tools/make_stubs.py; do not edit."""

from collections.abc import Sequence
from typing import Any
'''
# Types that no annotation says: of properties, of special methods, and of operators with several results.
PROPERTIES = {
    "shape": "Size",
    "dtype": "dtype",
    "device": "device",
    "ndim": "int",
    "nbytes": "int",
    "itemsize": "int",
    "requires_grad": "bool",
    "is_leaf": "bool",
    "grad": "Tensor | None",
    "data": "Tensor",
    "T": "Tensor",
    "mT": "Tensor",
    "H": "Tensor",
    "mH": "Tensor",
    "real": "Tensor",
    "imag": "Tensor",
    "is_cuda": "bool",
    "is_cpu": "bool",
    "is_meta": "bool",
    "is_sparse": "bool",
    "is_quantized": "bool",
    "layout": "layout",
    "output_nr": "int",
}
RETURNS = {
    "__len__": "int",
    "__bool__": "bool",
    "__int__": "int",
    "__float__": "float",
    "__complex__": "complex",
    "__index__": "int",
    "__repr__": "str",
    "__format__": "str",
    "__hash__": "int",
    "__contains__": "bool",
    "dim": "int",
    "ndimension": "int",
    "numel": "int",
    "nelement": "int",
    "element_size": "int",
    "storage_offset": "int",
    "data_ptr": "int",
    "is_contiguous": "bool",
    "is_floating_point": "bool",
    "is_complex": "bool",
    "is_signed": "bool",
    "item": "Any",
    "tolist": "Any",
    "numpy": "Any",
    "backward": "None",
    "__setitem__": "None",
    "__getitem__": "Tensor",
    "size": "Any",
    "stride": "Any",
}
SEVERAL = {
    "max",
    "min",
    "sort",
    "topk",
    "split",
    "chunk",
    "unbind",
    "mode",
    "median",
    "kthvalue",
    "cummax",
    "cummin",
    "svd",
    "qr",
}


def default_of(value: Any) -> str:
    return (
        repr(value)
        if value is None
        or (
            isinstance(value, (bool, int, float, str, tuple))
            and len(repr(value)) < 30
            and not any(word in repr(value) for word in ("inf", "nan", "torch.", "<"))
        )
        else "..."
    )


def annotation_of(parameter: inspect.Parameter, declared: dict[str, Any]) -> str:
    text = declared.get(parameter.name, parameter.annotation)
    text = text if isinstance(text, str) else getattr(text, "__name__", "Any")
    return KNOWN.get(text, "Any")


def declared_types(function: Any) -> dict[str, Any]:
    """Annotations of the declaration an operator was generated from."""
    operator = getattr(function, "operator", None)
    source = getattr(operator, "body", None) or getattr(operator, "implementation", None)
    try:
        return {n: p.annotation for n, p in inspect.signature(source).parameters.items()} if source else {}
    except (TypeError, ValueError):
        return {}


def signature_of(function: Any, method: bool) -> str:
    """The parameters of a stub."""
    if isinstance(function, types.MethodDescriptorType):  # __hash__, which Pythons from 3.13 on know
        return "self, *args: Any, **kwargs: Any"
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "self, *args: Any, **kwargs: Any" if method else "*args: Any, **kwargs: Any"
    declared = declared_types(function)
    parts, star, had_default = [], False, False
    for i, p in enumerate(parameters):
        if method and i == 0 and p.kind is not p.VAR_POSITIONAL:
            parts.append("self")
            continue
        if p.kind is p.VAR_POSITIONAL and p.name == "surplus":  # which is refused
            continue
        if keyword.iskeyword(p.name):
            return "self, *args: Any, **kwargs: Any" if method else "*args: Any, **kwargs: Any"
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if p.kind is p.VAR_POSITIONAL:
            star = True
            if method and i == 0:
                parts.append("self")
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        note = "Tensor | None" if p.name == "out" and p.kind is p.KEYWORD_ONLY else annotation_of(p, declared)
        text = f"{mark}{p.name}: {note}"
        if p.default is not p.empty and p.default is not MISSING:
            shown = default_of(p.default)
            if shown == "None" and not (note == "Any" or "None" in note):
                text = f"{mark}{p.name}: {note} | None"
            text += f" = {shown}"
            had_default = True
        elif had_default and not star and not mark:
            text += " = ..."
        parts.append(text)
    return ", ".join(parts)


def result_of(name: str, function: Any, method: bool) -> str:
    if name in RETURNS:
        return RETURNS[name]
    if name in SEVERAL:
        return "Any"
    operator = getattr(function, "operator", None)
    if operator is not None or (name.rstrip("_") in flambeau.torch_function_names and method):
        text = getattr(getattr(operator, "signature", None), "return_annotation", None)
        return "Tensor" if hasattr(operator, "body") or text in ("Tensor", "Planned") else "Any"
    # from Python 3.14 on what functools.wraps makes has no annotations of its own
    text = next(
        (
            f.__annotations__["return"]
            for f in (function, inspect.unwrap(function))
            if "return" in getattr(f, "__annotations__", {})
        ),
        None,
    )
    return KNOWN.get(text, "None" if text == "None" else "Any") if isinstance(text, str) else "Any"


def stub(name: str, function: Any, method: bool) -> str:
    indent = "    " if method else ""
    head = f"{indent}def {name}({signature_of(function, method)}) -> {result_of(name, function, method)}:"
    doc = (inspect.getdoc(function) or "").strip().split("\n\n")[0].replace("\\", "\\\\").replace('"""', "'''")
    lines = doc.split("\n")
    if not doc:
        return f"{head} ..."
    body = ("\n" + indent + "    ").join(lines)
    end = "" if not body.endswith('"') else " "
    return f'{head}\n{indent}    """{body}{end}"""'


def tensor_stub() -> str:
    parts = [
        HEAD.format(doc="The Tensor, with the operators that are attached to it."),
        "from flambeau.base.device import device\nfrom flambeau.base.dtype import dtype\n"
        "from flambeau.base.layout import Layout, Size, layout\n\n_Size = Size\n\nclass Tensor:",
        f'    """{inspect.getdoc(Tensor)}\n    """',
        "    _storage: Any\n    _offset: int\n    _layout: Layout\n    _node: Any\n    _index: int\n"
        "    _base: Any\n    _grad: Any\n"
        "    _hooks: Any\n    _creation: Any\n    _resting: Any\n    def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...\n"
        "    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n    def __getattr__(self, name: str) -> Any: ...",
    ]
    skip = {
        "__new__",
        "__init__",
        "__slots__",
        "__module__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__init_subclass__",
        "__annotations__",
    }
    properties, methods, classmethods = [], [], []
    for name, thing in sorted(vars(Tensor).items()):
        if name in skip or not name.isidentifier() or (name.startswith("_") and not name.startswith("__")):
            continue
        if isinstance(thing, property):
            kind = PROPERTIES.get(name, "Any")
            properties.append(f"    @property\n    def {name}(self) -> {kind}: ...")
            if thing.fset is not None:
                properties.append(f"    @{name}.setter\n    def {name}(self, value: Any) -> None: ...")
        elif isinstance(thing, (classmethod, staticmethod)):
            classmethods.append(f"    {name}: Any")
        elif callable(thing):
            methods.append(stub(name, thing, method=True))
    parts += [*classmethods, *methods, *properties]
    parts.append(
        "\ndef tensor_from(storage: Any, offset: int, layout: Layout) -> Tensor: ...\n"
        "def view_of(source: Tensor, offset: int, layout: Layout) -> Tensor: ...\n"
        "def empty_layout(layout: Layout) -> Tensor: ...\n"
        "def wrap_dim(dim: int, ndim: int) -> int: ...\nlaunch: Any\nDType = dtype"
    )
    text = "\n".join(parts) + "\n"
    # Names that a method of the class shadows inside it.
    for word in ("dtype", "device", "layout"):
        own = "_layout_type" if word == "layout" else f"_{word}"  # `_layout` is a field
        text = (
            text.replace(f": {word} | None", f": {own} | None")
            .replace(f") -> {word}:", f") -> {own}:")
            .replace(f": {word} =", f": {own} =")
        )
    for builtin in ("float", "int", "bool", "complex"):
        text = _qualified(text, builtin)
    return text.replace(
        "_Size = Size\n",
        "_Size = Size\n_dtype = dtype\n_device = device\n_layout_type = layout\n"
        "_float = float\n_int = int\n_bool = bool\n_complex = complex\n",
    )


def _qualified(text: str, builtin: str) -> str:
    """Annotations of a builtin type whose name is also a method's."""
    import re

    return re.sub(rf"((?:: |-> |\| ))({builtin})\b(?=[ ,)=:|\n])", rf"\1_{builtin}", text)


def namespace_stub() -> str:
    parts = [
        HEAD.format(doc="The torch namespace."),
        (
            "from flambeau import amp as amp, autograd as autograd, backends as backends, core as core\n"
            "from flambeau import cuda as cuda, hub as hub, jit as jit\n"
            "from flambeau import linalg as linalg, nn as nn, optim as optim, overrides as overrides, profiler as profiler\n"
            "from flambeau import random as random, testing as testing, types as types, utils as utils, version as version\n"
            "from flambeau.base.device import device as device\nfrom flambeau.base.dtype import dtype as dtype\n"
            "from flambeau.base.layout import Size as Size\n"
            "from flambeau.core.modes.modes import autocast as autocast, enable_grad as enable_grad\n"
            "from flambeau.core.modes.modes import inference_mode as inference_mode, no_grad as no_grad\n"
            "from flambeau.core.modes.modes import set_grad_enabled as set_grad_enabled\n"
            "from flambeau.core.tensor.tensor import Tensor as Tensor\nfrom flambeau.random import Generator as Generator\n"
            "from flambeau.random import manual_seed as manual_seed\n\n"
            "__version__: Any\ne: float\ninf: float\nnan: float\npi: float\nnewaxis: None\n"
            "\ndef __getattr__(name: str) -> Any: ..."
        ),
    ]
    parts += [f"{name}: dtype" for name in sorted(dtypes.all_dtypes())]
    covered = set(dtypes.all_dtypes())
    for name, thing in sorted(vars(flambeau).items()):
        if name.startswith("_") or name in covered or keyword.iskeyword(name):
            continue
        if inspect.isfunction(thing):
            parts.append(stub(name, thing, method=False))
    text = "\n".join(parts) + "\n"
    for builtin in ("float", "int", "bool", "complex"):
        text = _qualified(text, builtin)
    for word in ("dtype", "device"):
        text = text.replace(f": {word} | None", f": _{word} | None")
    return text.replace(
        "\n__version__: Any\n",
        "\n_float = float\n_int = int\n_bool = bool\n_complex = complex\n_dtype = dtype\n_device = device\n__version__: Any\n",
    )


def stubs() -> dict[Path, str]:
    """The files and what they should hold."""
    return {
        ROOT / "flambeau" / "__init__.pyi": namespace_stub(),
        ROOT / "flambeau" / "core" / "tensor" / "tensor.pyi": tensor_stub(),
    }


def main() -> int:
    """Write the stubs, or with --check say which are not up to date."""
    status = 0
    for path, text in stubs().items():
        current = path.read_text() if path.exists() else ""
        if current == text:
            continue
        if "--check" in sys.argv:
            print(f"{path.relative_to(ROOT)} is not up to date: run make stubs")
            status = 1
        else:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
