"""The values of an archive's pickle as a program has them: checked against the types that the code declares.

An object without a value for an attribute, or with one of another type, is refused here: compiled code trusts its types. Stands
on importing and unpickler; used by loading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.device import device
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import DictType, ListType, OptionalType, TensorType, TupleType, Type
from flambeau.jit.archive.importing import Importer
from flambeau.jit.archive.unpickler import Instance, Member, Tagged
from flambeau.jit.execution.run import run
from flambeau.jit.execution.runtime import ScriptObject, named_tuple
from flambeau.jit.ir.types import ClassType, EnumType, InterfaceType, NamedTupleType, UnionType
from flambeau.nn.parameter import Parameter

__all__ = ["Objects"]

_PLAIN: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float, int), "bool": (bool,), "str": (str,), "complex": (complex,), "Device": (device,),
    "Scalar": (int, float, complex),
}  # fmt: skip
_DEEPEST = 200


class Objects:
    """Makes values of records. module(class): an empty module of a class; fill(module, attributes) gives it its values."""

    def __init__(
        self, importer: Importer, module: Callable[[ClassType], Any], fill: Callable[[Any, dict[str, Any]], None]
    ) -> None:
        self.importer, self.module, self.fill = importer, module, fill
        self.made: dict[int, Any] = {}
        self.kept: list[Any] = []
        self.depth = 0

    def value(self, x: Any, kind: Type) -> Any:
        """The value of a type. RuntimeError for one of another type."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise RuntimeError("refusing values that are nested too deeply")
        try:
            return self._value(x, kind)
        finally:
            self.depth -= 1

    def _value(self, x: Any, kind: Type) -> Any:
        if isinstance(x, Tagged):
            x = x.value
        if isinstance(kind, OptionalType):
            return None if x is None else self.value(x, kind.getElementType())
        if isinstance(kind, UnionType) or kind.written == "Any":
            return self._one_of(x, kind)
        if isinstance(kind, TensorType):
            self._expect(x, Tensor, kind)
            return self._parameter(x) if x.requires_grad else x
        if isinstance(kind, EnumType):
            return self._member(x, kind)
        if isinstance(kind, (ClassType, InterfaceType)):
            return self._object(x, kind)
        if isinstance(kind, ListType):
            return self._once(x, lambda: self._list(x, kind))
        if isinstance(kind, DictType):
            return self._once(x, lambda: self._dict(x, kind))
        if isinstance(kind, TupleType):
            return self._tuple(x, kind)
        if kind.written == "NoneType":
            return self._expect(x, type(None), kind)
        allowed = _PLAIN.get(kind.written)
        if allowed is None or (isinstance(x, bool) and bool not in allowed):
            raise self._wrong(x, kind)
        self._expect(x, allowed, kind)
        return float(x) if kind.written == "float" else x

    def _wrong(self, x: Any, kind: Type) -> RuntimeError:
        found = x.name if isinstance(x, (Instance, Member)) else type(x).__name__
        return RuntimeError(f"expected a value of type {kind} in the archive, but found {found}")

    def _expect(self, x: Any, cls: Any, kind: Type) -> Any:
        if not isinstance(x, cls):
            raise self._wrong(x, kind)
        return x

    def _once(self, x: Any, make: Callable[[], Any]) -> Any:
        """What a container of the file became, which several places of the program may share."""
        if id(x) not in self.made:
            self.made[id(x)] = make()
            self.kept.append(x)
        return self.made[id(x)]

    def _parameter(self, x: Any) -> Any:
        """The parameter that a tensor of the file is, which is one wherever the file has it."""
        return self._once(x, lambda: Parameter(x, x.requires_grad))

    def _list(self, x: Any, kind: ListType) -> list[Any]:
        return [self.value(item, kind.element) for item in self._expect(x, list, kind)]

    def _dict(self, x: Any, kind: DictType) -> dict[Any, Any]:
        return {self.value(k, kind.key): self.value(v, kind.value) for k, v in self._expect(x, dict, kind).items()}

    def _tuple(self, x: Any, kind: TupleType) -> tuple[Any, ...]:
        elements = kind.elements()
        if len(self._expect(x, tuple, kind)) != len(elements):
            raise self._wrong(x, kind)
        items = [self.value(item, each) for item, each in zip(x, elements)]
        return named_tuple(kind)(*items) if isinstance(kind, NamedTupleType) else tuple(items)  # type: ignore[no-any-return]

    def _member(self, x: Any, kind: EnumType) -> Any:
        if not isinstance(x, Member) or self.importer.type(x.name) is not kind:
            raise self._wrong(x, kind)
        try:
            return kind.python_class(x.value)
        except ValueError:
            raise self._wrong(x, kind) from None

    def _one_of(self, x: Any, kind: Type) -> Any:
        """A value whose type is that of one member of a union, or known by itself."""
        for member in kind.containedUnionTypes() if isinstance(kind, UnionType) else ():
            try:
                return self.value(x, member)
            except RuntimeError:
                continue
        if isinstance(kind, UnionType) or isinstance(x, (list, dict, tuple)):
            raise self._wrong(x, kind)
        return self._object(x, kind) if isinstance(x, Instance) else x

    # ---- objects

    def root(self, x: Any) -> Any:
        """The module of an archive. RuntimeError for anything else."""
        if not isinstance(x, Instance):
            raise RuntimeError("the archive holds no module")
        return self._object(x, self.importer.type(x.name))

    def _object(self, x: Any, kind: Type) -> Any:
        if not isinstance(x, Instance):
            raise self._wrong(x, kind)
        own = self.importer.type(x.name)
        if not isinstance(own, ClassType) or not own.isSubtypeOf(kind):
            raise self._wrong(x, kind)
        if id(x) in self.made:
            return self.made[id(x)]
        made = self.made[id(x)] = self.module(own) if own.is_module else ScriptObject(own)
        self.kept.append(x)
        setter = own.methods.get("__setstate__")
        if setter is not None:
            if own.is_module:  # what it sets is there from the start
                self.fill(made, dict.fromkeys(own.attributes))
            run(setter, [made, self.value(x.state, setter.schema.arguments[1].type)])
            return made
        if not isinstance(x.state, dict):
            raise RuntimeError(f"expected the attributes of {x.name} in the archive, but found {type(x.state).__name__}")
        values = {}
        for name, attribute in own.attributes.items():
            if name not in x.state and not _may_lack(attribute.type):
                raise RuntimeError(f"the archive has no value for {x.name}.{name}")
            values[name] = self.value(x.state.get(name), attribute.type)
            if attribute.is_parameter and type(values[name]) is Tensor:
                values[name] = self._parameter(values[name])
        if own.is_module:
            self.fill(made, values)
        else:
            made.values.update(values)
        return made


def _may_lack(kind: Type) -> bool:
    return isinstance(kind, OptionalType) or kind.written == "NoneType"
