"""Schemas of two versions of an operator, what a schema says of a call, and operators that keep to theirs."""

import pytest

import flambeau as torch
from flambeau._C import _is_alias_of, _overlaps, _SchemaArgType, _SchemaArgument, _SchemaInfo
from flambeau._subclasses.schema_check_mode import SchemaCheckMode
from flambeau.dispatcher.schema import parse_schema

OLD = "any.over(Tensor self, *, Tensor b, int c) -> Tensor"


@pytest.mark.parametrize(
    "new, fits",
    [
        (OLD, True),
        ("any_.over(Tensor self, *, Tensor b, int c) -> Tensor", False),
        ("any.over(Tensor self, *, Tensor b) -> Tensor", False),
        ("any.over(Tensor self, *, Tensor b, int c, int d) -> Tensor", False),
        ("any.over(Tensor self, *, Tensor b, int c, int d=1) -> Tensor", True),
        ("any.over(Tensor self, Tensor b, int c) -> Tensor", True),
        ("any.over(Tensor self, *, int c, Tensor b) -> Tensor", False),
        ("any.over(Tensor self, *, Tensor b, int? c) -> Tensor", True),
        ("any.over(Tensor self, *, Tensor b, int[] c) -> Tensor", False),
        ("any.over(Tensor self, *, Tensor b, int c) -> Tensor?", False),
    ],
)
def test_backward_compatible(new, fits):
    assert parse_schema(new).is_backward_compatible_with(parse_schema(OLD)) is fits


@pytest.mark.parametrize(
    "new, reason",
    [
        ("any(Tensor self, int a, int b=1, int c=1) -> Tensor", ""),
        ("any(Tensor self, int a, int b=4) -> Tensor", "'b' is not forward compatible with the older version of the schema"),
        (
            "any(Tensor self, int a, int b=1, int[2] c=1) -> Tensor",
            "Function schema is not forward compatible since the new argument 'c' of type int[] has a container type as its "
            "default value.",
        ),
        (
            "any(Tensor self, int a, int b=1, *, Tensor(a!) out) -> Tensor",
            "Function schema should have the same number of out arguments",
        ),
    ],
)
def test_forward_compatible(new, reason):
    old = parse_schema("any(Tensor self, int a, int b=1) -> Tensor")
    assert parse_schema(new).check_forward_compatible_with(old) == (not reason, reason)


def test_types_as_schemas_pass_them():
    schema = parse_schema("f(ScalarType? dtype, Device? device, SymInt[] size) -> SymInt")
    assert [a.type.str() for a in schema.arguments] == ["int?", "Device?", "int[]"]
    assert schema.returns[0].type.str() == "int" and schema.returns[0].real_type.str() == "SymInt"
    with pytest.raises(RuntimeError, match="can't have default value args"):
        parse_schema("f(int a, int b=0, ...) -> ()")


def test_what_a_schema_says_of_a_call():
    first, second = (_SchemaArgument(_SchemaArgType.input, at) for at in (0, 1))
    info = _SchemaInfo(torch.ops.aten.add_.Tensor._schema)
    assert info.is_mutable() and info.is_mutable("input") and not info.is_mutable("other") and not info.may_alias(first, second)
    x = torch.ones(2)
    info.add_argument_values({"self": x, "other": x[:1]})
    assert info.may_alias(first, second) and info.is_mutable("other")
    norm = _SchemaInfo(torch.ops.aten.batch_norm.default._schema)
    assert not norm.is_mutable("running_mean")
    norm.add_argument_value("training", True)
    assert norm.is_mutable("running_mean")
    assert _is_alias_of(x, [x.view(2, 1)]) and not _overlaps(x, [])


def test_check_mode_records_writes_and_views():
    x = torch.rand(3, 3)
    with SchemaCheckMode() as seen:
        x.relu().sin()
        x.sinh_()
        x.view(9)
    assert seen.ops == ["aten::relu", "aten::sin", "aten::sinh_", "aten::view"]
    assert seen.mutated == [("aten::sinh_", "input")]
    assert seen.aliasing == [("aten::sinh_", "input", "output_0"), ("aten::view", "input", "output_0")]


@pytest.mark.parametrize(
    "schema, body, words",
    [
        ("f(Tensor x) -> Tensor", lambda x: x.view(-1), "not defined to alias output but was aliasing"),
        ("f(Tensor x) -> Tensor", lambda x: x.mul_(2) * 3, "x is not defined as mutable but was mutated"),
        ("f(Tensor(a) x) -> Tensor(a)", lambda x: x, "are not allowed to directly return inputs"),
    ],
)
def test_check_mode_refuses_operators_that_do_otherwise(schema, body, words):
    with torch.library._scoped_library("checked_schemas", "FRAGMENT") as library:
        library.define(schema)
        library.impl("f", body, "CPU")
        with pytest.raises(RuntimeError, match=words), SchemaCheckMode():
            torch.ops.checked_schemas.f(torch.ones(2, 2))


def test_overloads_refuse_in_the_words_of_their_schemas_and_are_taken_apart():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'out' for operator 'aten::add'"):
        torch.ops.aten.add.Tensor(x, x, out=x)
    packet = torch.ops.aten.add
    assert packet.op.__module__ == packet.__module__ and torch.equal(packet.op(x, x), x + x)
    assert torch.equal(torch.ops.aten.square.default.decompose(x * 3), x * 9)
    assert torch.ops.aten.sin.default.decompose(x) is NotImplemented


def test_python_kernels_are_asked_while_their_dispatcher_is_on():
    overload = torch.ops.aten.erfcx.default if hasattr(torch.ops.aten, "erfcx") else torch.ops.aten.special_erfcx.default
    overload.py_impl(torch._C.DispatchKey.CPU)(lambda x: x + 100)
    try:
        with pytest.raises(RuntimeError, match="Trying to override a python impl"):
            overload.py_impl(torch._C.DispatchKey.CPU)(lambda x: x)
        x = torch.zeros(1)
        assert overload(x).item() == 1
        with torch._dispatch.python.enable_python_dispatcher():
            assert overload(x).item() == 100
            with torch._dispatch.python.no_python_dispatcher():
                assert overload(x).item() == 1
        assert overload(x).item() == 1
    finally:
        overload.py_kernels.clear()
        type(overload).with_python_kernels.remove(overload)


@pytest.mark.parametrize(
    "schema, function, words",
    [
        ("(Tensor y) -> Tensor", lambda x: x, "signature to match"),
        ("(Tensor x, *, Tensor y) -> Tensor", lambda x, y: x, "signature to match"),
        ("(Tensor x) -> Tensor", lambda *x: x, "not supported"),
        ("(Tensor x) -> Tensor", lambda x=1: x, "default arguments"),
    ],
)
def test_the_older_custom_op_compares_a_schema_with_the_function(schema, function, words):
    from flambeau._custom_op.impl import custom_op

    function.__name__ = "compared"
    with pytest.raises(ValueError, match=words):
        custom_op("older_ops::compared", schema)(function)
    with pytest.raises(ValueError, match="expected `func` to have name 'other' but got 'compared'"):
        custom_op("older_ops::other", schema)(function)
