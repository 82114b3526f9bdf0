"""Unique names for the nodes of a graph and for what its generated code refers to.

Stands on fx.names; used by fx.graph and fx.codegen.
"""

from __future__ import annotations

import builtins
import keyword
import math
from typing import Any, NamedTuple

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.fx import _pytree as fx_pytree
from flambeau.fx.names import _illegal_char_regex, _name_regex


class _CustomBuiltin(NamedTuple):
    """A name that every generated function knows, and the statement that makes it known to code written to a file."""

    import_str: str
    obj: Any


_custom_builtins: dict[str, _CustomBuiltin] = {}
_illegal_names: dict[str, Any] = {**dict.fromkeys(keyword.kwlist, object()), **vars(builtins)}


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)
    _illegal_names[name] = obj


_register_custom_builtin("inf", "from math import inf", math.inf)
_register_custom_builtin("nan", "from math import nan", math.nan)
_register_custom_builtin("NoneType", "NoneType = type(None)", type(None))
_register_custom_builtin("torch", "import torch", torch)
_register_custom_builtin("device", "from torch import device", torch.device)
_register_custom_builtin("fx_pytree", "import torch.fx._pytree as fx_pytree", fx_pytree)
_register_custom_builtin("pytree", "import torch.utils._pytree as pytree", pytree)


class _Namespace:
    """Names that are in use, and the objects that they belong to."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any | None) -> str:
        """A name like `candidate` that nothing else has; the one that it has, for an object (not None) that was named before.

        Characters that no identifier has become underscores; keywords, builtins and taken names get a number behind.
        """
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        found = _name_regex.match(candidate)
        if found is None:
            candidate = _illegal_char_regex.sub("_", candidate) or "_unnamed"
            if candidate[0].isdigit():
                candidate = "_" + candidate
            found = _name_regex.match(candidate)
            assert found is not None
        base, number = found.group(1), found.group(2)
        if number is None or candidate in self._used_names:
            count = self._base_count.get(base, 0)
            if candidate in self._used_names or _illegal_names.get(candidate, obj) is not obj:
                count += 1
                candidate = f"{base}_{count}"
        else:
            count = int(number)
        while candidate in self._used_names:
            count += 1
            candidate = f"{base}_{count}"
        self._used_names.add(candidate)
        self._base_count[base] = count
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Let an object have a name."""
        if obj in self._obj_to_name:
            raise AssertionError("obj is already associated")
        self._obj_to_name[obj] = name

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)
