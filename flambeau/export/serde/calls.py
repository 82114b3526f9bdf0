"""How the modules of a program are called, with the containers of inputs and outputs, as the classes of the format, and back.

Stands on signatures and trees; used by reading and writing.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

import flambeau.utils._pytree as pytree
from flambeau.export.exported_program import ModuleCallEntry, ModuleCallSignature
from flambeau.export.serde import schema
from flambeau.export.serde.signatures import argument_data, argument_of
from flambeau.export.serde.text import SerializeError
from flambeau.export.serde.trees import treespec

__all__ = ["call_data", "call_of", "checked_name"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def checked_name(name: str) -> str:
    """A name that generated code may have. SerializeError for any other."""
    if not _IDENTIFIER.fullmatch(name) or keyword.iskeyword(name):
        raise SerializeError(f"{name[:80]!r} is no name of a value")
    return name


# ---------------------------------------------------------------- reading


def call_of(entry: schema.ModuleCallEntry) -> ModuleCallEntry:
    """A module of the program. SerializeError for containers that are no arguments of a call."""
    given = entry.signature
    if given is None:
        return ModuleCallEntry(entry.fqn)
    names = [checked_name(name) for name in given.forward_arg_names or []] or None
    in_spec, out_spec = treespec(given.in_spec), treespec(given.out_spec)
    if not _is_call(in_spec):
        raise SerializeError(f"the inputs of module {entry.fqn[:80]!r} must be a tuple and a dict of names")
    inputs, outputs = (list(map(argument_of, some)) for some in (given.inputs, given.outputs))
    return ModuleCallEntry(entry.fqn, ModuleCallSignature(inputs, outputs, in_spec, out_spec, names))


def _is_call(spec: pytree.TreeSpec) -> bool:
    """Whether the containers are those of positional arguments and keywords."""
    parts = spec.children()
    if spec.type is not tuple or [part.type for part in parts] != [tuple, dict]:
        return False
    return all(isinstance(name, str) and name.isidentifier() for name in parts[1].context)


# ---------------------------------------------------------------- writing


def call_data(entry: ModuleCallEntry, fields: dict[str, schema.NamedTupleDef]) -> schema.ModuleCallEntry:
    """A module of the program, in the format; the fields of named tuples go to `fields`."""
    call = entry.signature
    if call is None:
        return schema.ModuleCallEntry(entry.fqn)
    for spec in (call.in_spec, call.out_spec):
        for part in _parts(spec):
            if pytree.is_namedtuple_class(part.context) and part.context in pytree.SUPPORTED_SERIALIZED_TYPES:
                name = pytree.SUPPORTED_SERIALIZED_TYPES[part.context].serialized_type_name
                fields[name] = schema.NamedTupleDef(list(part.context._fields))
    return schema.ModuleCallEntry(
        entry.fqn,
        schema.ModuleCallSignature(
            inputs=list(map(argument_data, call.inputs)),
            outputs=list(map(argument_data, call.outputs)),
            in_spec=pytree.treespec_dumps(call.in_spec, schema.TREESPEC_VERSION),
            out_spec=pytree.treespec_dumps(call.out_spec, schema.TREESPEC_VERSION),
            forward_arg_names=call.forward_arg_names or None,
        ),
    )


def _parts(spec: pytree.TreeSpec) -> Iterator[pytree.TreeSpec]:
    yield spec
    for child in spec.children():
        yield from _parts(child)
