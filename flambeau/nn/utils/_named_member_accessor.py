"""torch.nn.utils._named_member_accessor: parameters, buffers and submodules of a module by the paths of their names.

Parameters that are set this way may be any tensors; nothing is registered anew. Functional calls of other libraries stand on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.module import Module

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]

_MISSING: Any = object()


def _checked(module: Any, name: str, kind: str) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')


def _is_tensor(value: Any, words: str = "") -> Any:
    if not isinstance(value, Tensor):
        raise TypeError(f"{words}{value} is not an instance of torch.Tensor")
    return value


def set_tensor(module: Module, name: str, tensor: Tensor | None) -> None:
    """Put a tensor in the place of a parameter or buffer, or as an attribute.

    Raises KeyError for names with dots, TypeError for what is no tensor.
    """
    _checked(module, name, "tensor")
    if tensor is not None:
        _is_tensor(tensor)
    for kept in (module._parameters, module._buffers):
        if name in kept:
            kept[name] = tensor  # type: ignore[index]
            return
    setattr(module, name, tensor)


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """The same, and what was there before: a marker where there was nothing, which taken back removes the name again.

    Raises AttributeError where nothing has that name, unless allow_missing, and TypeError where what has it is no tensor.
    """
    _checked(module, name, "tensor")
    if tensor is not _MISSING and tensor is not None:
        _is_tensor(tensor)
    for kept in (module._parameters, module._buffers):
        if name in kept:
            before = kept[name]
            if tensor is _MISSING:
                del kept[name]
            else:
                kept[name] = tensor  # type: ignore[index]
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING:
        if not allow_missing:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    else:
        _is_tensor(before, f"attribute `{name}`: ")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module in the place of a child; the child. Raises KeyError if there is none of that name."""
    _checked(module, name, "submodule")
    if not isinstance(submodule, Module):
        raise TypeError(f"{submodule} is not an instance of torch.nn.Module")
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before, module._modules[name] = module._modules[name], submodule
    if not isinstance(before, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    return before


class NamedMemberAccessor:
    """The members of a module by paths such as "encoder.0.weight"."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    def get_submodule(self, name: str) -> Module:
        """The module at a path; AttributeError if there is none."""
        if not name:
            return self.module
        if name not in self.memo:
            prefix, _, last = name.rpartition(".")
            parent = self.get_submodule(prefix)
            found = getattr(parent, last, None)
            if found is None:
                raise AttributeError(f"{parent._get_name()} has no attribute `{last}`")
            if not isinstance(found, Module):
                raise TypeError(f"submodule `{name}`: {found} is not an instance of torch.nn.Module")
            self.memo[name] = found
        return self.memo[name]

    def _owner(self, path: str) -> tuple[Module, str]:
        prefix, _, name = path.rpartition(".")
        return self.get_submodule(prefix), name

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put a module at a path; what was there."""
        self.memo.clear()
        return swap_submodule(*self._owner(path), value)

    def get_tensor(self, name: str) -> Tensor:
        """The tensor at a path. AttributeError if there is nothing, TypeError if it is no tensor."""
        owner, last = self._owner(name)
        try:
            found = getattr(owner, last)
        except AttributeError:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`") from None
        return found if found is None else _is_tensor(found)

    def set_tensor(self, name: str, value: Tensor | None) -> None:
        """Put a tensor at a path."""
        set_tensor(*self._owner(name), value)

    def del_tensor(self, name: str) -> None:
        """Remove the tensor at a path."""
        owner, last = self._owner(name)
        try:
            delattr(owner, last)
        except AttributeError:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`") from None

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Put a tensor at a path; what was there."""
        return swap_tensor(*self._owner(name), value, allow_missing=allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Tensor]:
        """The tensors at the paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Put tensors at the paths."""
        for name, value in self._pairs(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Put tensors at the paths."""
        self.set_tensors(named_tensors, named_tensors.values())

    def del_tensors(self, names: Iterable[str]) -> None:
        """Remove the tensors at the paths."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        """Put tensors at the paths; what was there."""
        return [self.swap_tensor(name, value, allow_missing) for name, value in self._pairs(names, values)]

    def swap_tensors_dict(self, named_tensors: dict[str, Any], allow_missing: bool = False) -> tuple[dict[str, Any], list[str]]:
        """Put tensors at the paths; what was there, and the paths where nothing was.

        RuntimeError if there are such without allow_missing; everything is then as it was.
        """
        before: dict[str, Any] = {}
        for name, value in named_tensors.items():
            try:
                before[name] = self.swap_tensor(name, value, allow_missing=True)
            except Exception:
                for done, old in before.items():
                    self.swap_tensor(done, old, allow_missing=True)
                raise
        missing = [name for name, old in before.items() if old is _MISSING]
        if missing and not allow_missing:
            for done, old in before.items():
                self.swap_tensor(done, old, allow_missing=True)
            raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """(paths of tensors that the keys leave out, keys that are no such paths), sorted."""
        given, known = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(known - given), sorted(given - known)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Paths and parameters."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Paths and buffers."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Paths, parameters and buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Module]]:
        """Paths and modules."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)

    @staticmethod
    def _pairs(names: Iterable[str], values: Iterable[Any]) -> zip:
        first, second = list(names), list(values)
        if len(first) != len(second):
            raise AssertionError(f"names and values must have the same length, got {len(first)} names and {len(second)} values")
        return zip(first, second, strict=True)
