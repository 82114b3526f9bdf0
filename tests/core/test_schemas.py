"""What declarations say of their schemas, beside what PyTorch lists: `schema_differences.txt` has what differs, by kind.

The file only shrinks: a line that is no longer true is an error, and so is a difference that isn't in it.
`python test_schemas.py` writes it anew, and refuses lines that weren't there.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from taken_back import declarations_taken_back

import flambeau.core
from flambeau.base.aten_schemas import table
from flambeau.core.operator import schemas
from flambeau.core.operator.annotations import Number, Operand
from flambeau.core.operator.publishing import OPERATORS
from flambeau.core.operator.schema_index import declaration_of, unlisted_packets
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema import FunctionSchema, parse_schema
from flambeau.dispatcher.schema_types import AnyType
from flambeau.ir import scalar as s

RECORDED = Path(__file__).with_name("schema_differences.txt")


def parsed(line: str) -> FunctionSchema:
    return parse_schema(line.partition(" | ")[0])


def kinds(own: FunctionSchema, listed: FunctionSchema) -> list[str]:
    """How two schemas of one form differ, the worst first; the name of an overload is nothing that a signature could say."""
    found = set()
    if len(own.arguments) != len(listed.arguments):
        found.add("arguments")
    for at, (mine, theirs) in enumerate(zip(own.arguments, listed.arguments)):
        if mine.name != theirs.name and (at or (mine.name, theirs.name) != ("input", "self")):
            found.add("name")
        if isinstance(mine.type, AnyType) or str(mine.type) == "Optional[Any]":
            found.add("untold type")
        elif mine.written() != theirs.written():
            sizes = mine.written().replace("SymInt", "int") == theirs.written().replace("SymInt", "int")
            found.add("size" if sizes else "type")
        if (mine.has_default_value(), mine.default_value) != (theirs.has_default_value(), theirs.default_value):
            found.add("default")
        if mine.kwarg_only != theirs.kwarg_only:
            found.add("by name only")
    if [r.written() for r in own.returns] != [r.written() for r in listed.returns]:
        found.add("untold result" if "Any" in str(own.returns[:1][0] if own.returns else "") else "result")
    return [kind for kind in KINDS if kind in found]


KINDS = ("arguments", "type", "result", "default", "by name only", "name", "untold type", "untold result", "size")


def differences() -> Iterator[tuple[str, str]]:
    """(kinds, the form as its declaration says it) of each that PyTorch doesn't list so."""
    package = Path(flambeau.core.__path__[0]).parent
    for room in ("ops", "dispatcher.aten"):  # some declare when they are asked for
        for module in pkgutil.walk_packages([str(package.joinpath(*room.split(".")))], f"flambeau.{room}."):
            importlib.import_module(module.name)
    for declared in OPERATORS.values():
        name = schemas.listed_name(declared)
        for packet, forms in declared.own_schemas.items() if name else ():
            lines = table().get(f"aten::{name}{'_' * (packet.endswith('_') and not name.endswith('_'))}", {})
            listed = [parsed(line) for line in lines.values() if "script" not in line.rpartition(" | ")[2].split()]
            for line in forms.values():
                own = parsed(line)
                found = min(
                    [kinds(own, each) for each in listed],
                    default=["no form"],
                    key=lambda kinds: (len(kinds), [KINDS.index(kind) for kind in kinds]),
                )
                if found:
                    yield ", ".join(found), line.partition(" | ")[0]


def test_what_declarations_say_is_what_pytorch_lists() -> None:
    found = {f"{kind}: {line}" for kind, line in differences()}
    recorded = set(RECORDED.read_text(encoding="utf-8").splitlines())
    assert not found - recorded, "say it in the declaration's annotations, as PyTorch's list has it"
    assert not recorded - found, "no difference any more: take these lines out of schema_differences.txt"


def test_every_declaration_has_a_schema():
    without = [name for name, declared in OPERATORS.items() if not declared.schemas and declared.public is not None]
    assert without == []
    for packet in unlisted_packets():
        declared = declaration_of(packet)
        assert declared is not None and packet in declared.schemas
        for line in declared.schemas[packet].values():
            assert str(parsed(line)).startswith(packet)


def test_pytorchs_text_is_the_text_of_what_it_lists():
    assert OPERATORS["add"].schemas["aten::add"] is table()["aten::add"]
    assert set(OPERATORS["add"].schemas) == {"aten::add", "aten::add_"}
    assert "aten::log_sigmoid" in OPERATORS["logsigmoid"].schemas
    assert declaration_of("aten::add_") is OPERATORS["add"]
    assert declaration_of("aten::linalg_det") is not None and declaration_of("aten::no_such_operator") is None


@pytest.fixture
def declare() -> Iterator[Callable[..., Any]]:
    """`pointwise`, with what it declares taken back."""
    with declarations_taken_back():
        yield pointwise


def test_an_operand_is_a_tensor_or_a_number(declare):
    @declare(kind="float", function=False, out=False, inplace=False)
    def blended(input: Tensor, other: Operand, weight: Operand, *, power: Number = 2, sharp: bool = False):
        return input * s.tanh(other) + weight * power

    assert list(blended.operator.schemas["flambeau::blended"].values()) == [
        f"flambeau::blended{name}(Tensor self, {other} other, {weight} weight, *, Scalar power=2, bool sharp=False) -> Tensor "
        "| pointwise"
        for name, other, weight in (
            ("", "Tensor", "Tensor"),
            (".Scalar_Tensor", "Scalar", "Tensor"),
            (".Tensor_Scalar", "Tensor", "Scalar"),
            (".Scalar_Scalar", "Scalar", "Scalar"),
        )
    ]


def test_a_written_schema_names_its_namespace_and_the_other_forms_follow(declare):
    @declare(kind="float", schema="mine::bent(Tensor self, float by=0.5) -> Tensor | core")
    def bent(input: Tensor, by: Number = 0.5):
        return input * by

    assert bent.operator.schemas == {
        "mine::bent": {
            "default": "mine::bent(Tensor self, float by=0.5) -> Tensor | core pointwise",
            "out": "mine::bent.out(Tensor self, float by=0.5, *, Tensor(a!) out) -> Tensor(a!) | core pointwise out",
        },
        "mine::bent_": {"default": "mine::bent_(Tensor(a!) self, float by=0.5) -> Tensor(a!) | core pointwise inplace"},
    }
    assert declaration_of("mine::bent_") is bent.operator


def test_what_is_no_schema_is_refused(declare):
    def skewed(input: Tensor):
        return input

    with pytest.raises(TypeError, match=r"skewed: 'mine::skewed\(Tensor self\)' is no schema"):
        declare(kind="float", schema="mine::skewed(Tensor self)")(skewed)


def main() -> None:
    """Write the file anew; a difference that it hasn't got is an error, unless there is no file."""
    found = sorted(f"{kind}: {line}" for kind, line in differences())
    if RECORDED.exists():
        new = set(found) - set(RECORDED.read_text(encoding="utf-8").splitlines())
        if new:
            sys.exit("\n".join(sorted(new)))
    RECORDED.write_text("\n".join(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
