"""torch._export.passes.replace_view_ops_with_view_copy_ops_pass: a face of export._passes."""

from __future__ import annotations

from flambeau.dispatcher.overloads import OpOverload
from flambeau.export._passes import ViewsAsCopies as ReplaceViewOpsWithViewCopyOpsPass
from flambeau.export._passes import view_copy_of

__all__ = ["ReplaceViewOpsWithViewCopyOpsPass", "get_view_copy_of_view_op", "is_view_op"]


def is_view_op(schema: object) -> bool:
    """Whether a schema is that of an operator whose result is a view of its argument."""
    arguments = getattr(schema, "arguments", ())
    return any(a.alias_info is not None and not a.alias_info.is_write for a in arguments)


def get_view_copy_of_view_op(schema: object) -> OpOverload | None:
    """The operator that gives a copy of what the one of this schema gives a view of; None if it gives none."""
    from flambeau.dispatcher.namespaces import ops

    namespace, _, name = str(getattr(schema, "name", "")).partition("::")
    packet = getattr(getattr(ops, namespace), name)
    return view_copy_of(getattr(packet, getattr(schema, "overload_name", "") or "default")) if is_view_op(schema) else None
