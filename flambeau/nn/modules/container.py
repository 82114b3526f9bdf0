"""Modules that hold modules or parameters: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import flambeau
from flambeau.base.tracebacks import api_boundary
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.module import Module, indented
from flambeau.nn.parameter import Parameter


def _position(index: Any, length: int, where: str = "index {} is out of range") -> int:
    """The non-negative form of a Python index."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(where.format(index))
    return index % length


class Container(Module):
    """Deprecated: a Module that registers its keyword arguments."""

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Module):
    """Modules applied one after another: `Sequential(a, b)(x) == b(a(x))`. Takes modules, or one OrderedDict."""

    @api_boundary
    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for position, module in enumerate(args):
                self.add_module(str(position), module)

    def _name_at(self, index: Any) -> str:
        return list(self._modules)[_position(index, len(self))]

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = OrderedDict((str(position), module) for position, module in enumerate(modules))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        offset = len(self)
        for position, module in enumerate(other):
            self.add_module(str(position + offset), module)
        return self

    def __mul__(self, other: int) -> Sequential:
        self._check_repeat(other)
        return Sequential(*(module for _ in range(other) for module in self))

    def __rmul__(self, other: int) -> Sequential:
        return self.__mul__(other)

    def __imul__(self, other: int) -> Sequential:
        self._check_repeat(other)
        present = list(self)
        for position, module in enumerate(present * (other - 1), start=len(present)):
            self.add_module(str(position), module)
        return self

    @staticmethod
    def _check_repeat(count: Any) -> None:
        if not isinstance(count, int):
            raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(count)}")
        if count <= 0:
            raise ValueError(f"Non-positive multiplication factor {count} for {Sequential}")

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module (or Sequential) at a position."""
        module = self[key]
        del self[key]
        return module

    def append(self, module: Module) -> Sequential:
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Put a module before position index; returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        length = len(self)
        if not -length <= index <= length:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Add every module of an iterable; returns self."""
        for module in sequential:
            self.append(module)
        return self

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(Module):
    """A list of registered modules."""

    @api_boundary
    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _get_abs_string_index(self, idx: Any) -> str:
        return str(_position(idx, len(self)))

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._get_abs_string_index(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        positions = range(len(self))[idx] if isinstance(idx, slice) else [self._get_abs_string_index(idx)]
        for position in positions:
            delattr(self, str(position))
        self._modules = {str(position): module for position, module in enumerate(self._modules.values())}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        combined = ModuleList()
        for position, module in enumerate(chain(self, other)):
            combined.add_module(str(position), module)
        return combined

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __repr__(self) -> str:
        """Equal neighbours are printed once: `(0-2): 3 x Linear(...)`."""
        texts = [repr(module) for module in self]
        if not texts:
            return self._get_name() + "()"
        lines = []
        start = 0
        for end in range(1, len(texts) + 1):
            if end < len(texts) and texts[end] == texts[start]:
                continue
            count = end - start
            label = f"({start}): " if count == 1 else f"({start}-{end - 1}): {count} x "
            lines.append(indented(label + texts[start], 2))
            start = end
        body = "\n  ".join(lines)
        return f"{self._get_name()}(\n  {body}\n)"

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position index."""
        modules = list(self._modules.values())
        for position in range(len(modules), index, -1):
            self._modules[str(position)] = self._modules[str(position - 1)]
        self._modules[str(index)] = module

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module (or list) at a position."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add every module of an iterable; returns self."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        offset = len(self)
        for position, module in enumerate(modules):
            self.add_module(str(offset + position), module)
        return self


class ModuleDict(Module):
    """A dictionary of registered modules, in order of insertion."""

    @api_boundary
    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove every module."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module under key."""
        return self._modules.pop(key)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """(name, module) pairs."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add the pairs of a mapping or of an iterable of pairs."""
        _update(self, modules, "ModuleDict.update", "ModuleDict update sequence element ")


def _update(target: Any, pairs: Any, call: str, element: str) -> None:
    """target[k] = v for every pair, with PyTorch's complaints about what is not a pair."""
    if not isinstance(pairs, Iterable):
        raise TypeError(f"{call} should be called with an iterable of key/value pairs, but got {type(pairs).__name__}")
    if isinstance(pairs, (Mapping, ModuleDict, ParameterDict)):
        for key, value in pairs.items():
            target[key] = value
        return
    for position, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{element}#{position} should be Iterable; is{type(pair).__name__}")
        if len(pair) != 2:
            raise ValueError(f"{element}#{position} has length {len(pair)}; 2 is required")
        target[pair[0]] = pair[1]


def _describe(value: Any, element: str) -> str:
    """One line of a parameter container's repr; element names the type of a tensor's elements."""
    if isinstance(value, Tensor):
        size = "x".join(str(extent) for extent in value.size())
        device = "" if not value.is_cuda else f" (GPU {value.get_device()})"
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        return f"{kind} containing: [{element} of size {size}{device}]"
    return f"Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters; tensors put in become Parameters, other values are kept as they are."""

    @api_boundary
    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _get_abs_string_index(self, idx: Any) -> str:
        return str(_position(idx, len(self)))

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            part = type(self)()
            for position in range(*idx.indices(len(self))):
                part.append(self[position])
            return part
        return getattr(self, self._get_abs_string_index(idx))

    def __setitem__(self, idx: int, param: Any) -> None:
        name = self._get_abs_string_index(idx)
        if isinstance(param, Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, name, param)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[position] for position in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end; returns self."""
        position = len(self)
        self._size += 1
        self[position] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add every value of an iterable; returns self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({position}): {_describe(value, str(getattr(value, 'dtype', None)))}" for position, value in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters; tensors put in become Parameters, other values are kept as they are."""

    @api_boundary
    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is "
                f"not a string (type is '{type(key).__name__}'). Open an issue on "
                "github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._key_to_attr(key)
        self._keys[key] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, name, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new ParameterDict with the same values."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key: str, default: Any | None = None) -> Any:
        """The value under key, which is first set to default if absent."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove every value."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value under key."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the pair that was put in last."""
        key, _ = self._keys.popitem()
        self._keys[key] = None  # deleted together with the attribute
        value = self[key]
        del self[key]
        return key, value

    def get(self, key: str, default: Any | None = None) -> Any:
        """The value under key, or default."""
        return self[key] if key in self else default  # noqa: SIM401 - this is get

    def fromkeys(self, keys: Iterable[str], default: Any | None = None) -> ParameterDict:
        """A new ParameterDict with these keys, all set to default."""
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(key, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Mapping[str, Any] | ParameterDict | Sequence[tuple[str, Any]]) -> None:
        """Add the pairs of a mapping or of an iterable of pairs."""
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            parameters = dict(sorted(parameters.items()))
        _update(self, parameters, "ParametersDict.update", "ParameterDict update sequence element ")

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_describe(value, flambeau.typename(value))}" for key, value in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        combined = self.copy()
        combined.update(other)
        return combined

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        combined = other.copy()
        combined.update(self)
        return combined

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self
