"""Questions about operators' schemas. Stands on dispatcher.schema; programs know it as torch._library.utils."""

from __future__ import annotations

from typing import Any

from flambeau.dispatcher.schema import FunctionSchema, parse_schema

__all__ = ["is_functional_schema", "mutates_and_returns_first_arg", "parse_namespace"]


def parse_namespace(qualname: str) -> tuple[str, str]:
    """(namespace, name) of "namespace::name". ValueError if it isn't of that form."""
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f"Expected `qualname` to be of the form "
            f'"namespace::name", but got {qualname}. '
            f"The qualname passed to the torch.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    return parts[0], parts[1]


def is_functional_schema(schema: Any) -> bool:
    """Whether an operator with this schema (or the text of one) writes to no argument and gives no views."""
    if isinstance(schema, str):
        schema = parse_schema(schema)
    return not schema.is_mutable and all(result.alias_info is None for result in schema.returns) and bool(schema.returns)


def mutates_and_returns_first_arg(op: Any) -> bool:
    """Whether the operator is in place: it writes to its first argument alone and gives it back."""
    schema: FunctionSchema = op._schema
    written = [argument for argument in schema.arguments if argument.is_write]
    return (
        len(schema.returns) == 1
        and written == schema.arguments[:1]
        and schema.returns[0].alias_info == schema.arguments[0].alias_info
    )
