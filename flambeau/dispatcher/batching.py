"""Operators with records under vmap and forward mode: how a transform's level answers a call of one.

An operator's own rule (`register_vmap`) sees all examples; a body in other operators runs on batched tensors; any other
operator runs once per example. Stands on transform; overloads come here when a tensor of a transform is among their
arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.autograd.mutation_guard import MORE
from flambeau.dispatcher import calling
from flambeau.dispatcher.overloads import OpOverload, OpOverloadPacket
from flambeau.dispatcher.record import OperatorRecord
from flambeau.transform.batched import Batch
from flambeau.transform.functions import VmapInfo, dims_of, placed
from flambeau.transform.levels import Level, mapped


def record_behind(operator: OpOverload | OpOverloadPacket, args: Sequence[Any], kwargs: dict[str, Any]) -> OperatorRecord:
    """The record that answers this call of an overload, or of the operator that has it."""
    if isinstance(operator, OpOverload):
        found = operator._record
    else:
        overloads = [getattr(operator, name)._record for name in operator.overloads()]
        fitting = [record for record in overloads if len(overloads) == 1 or _fits(record, args, kwargs)]
        found = (fitting or overloads)[0]
    assert found is not None
    return found


def _fits(record: OperatorRecord, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    assert record.schema is not None
    try:
        calling.bind(record.schema, args, kwargs)
    except RuntimeError:
        return False
    return True


def answer(operator: Any, level: Level, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call with tensors of this level among its arguments."""
    record = record_behind(operator, args, kwargs)
    assert record.schema is not None
    values = calling.bind(record.schema, args, kwargs)
    if isinstance(level, Batch):
        if record.vmap is not None:
            return _by_rule(record, level, values)
        if not _body_only(record):
            return level.loop(operator, args, kwargs)
    return calling.answer(record, values)


def _body_only(record: OperatorRecord) -> bool:
    """Whether the operator is nothing but a body in other operators."""
    return set(record.kernels) <= {"CompositeImplicitAutograd", "Meta"} and record.gradient is None


def _by_rule(record: OperatorRecord, batch: Batch, values: list[Any]) -> Any:
    assert record.schema is not None and record.vmap is not None
    args, kwargs = calling.split(record.schema, values)
    dims = tuple(dims_of(batch, x) for x in args)
    all_of = mapped(lambda x: x.value if batch.has(x) else x, (args, kwargs))
    made = record.vmap(VmapInfo(batch.size, batch.randomness), dims, *all_of[0], **all_of[1])
    if not (isinstance(made, tuple) and len(made) == 2):
        raise RuntimeError(
            f"Expected the vmap rule of {record} to have two returns, an output and out_dims. Got a {type(made)} instead. {MORE}"
        )
    return placed(batch, *made)
