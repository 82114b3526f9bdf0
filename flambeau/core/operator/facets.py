"""What an operator's declaration says of it beside its implementation, and the record that holds it.

`OpDef` is that record: `Pointwise` (core.operator.pointwise) and `Operator` (core.operator.opdef) are kinds of it, and a
plain function of the public API has a bare one where it says something (`@described`). A facet is a keyword of the
declaration and an attribute of the record, whose default is what holds for most operators. Stands on base; used by all of
core and by transform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

from flambeau.base.lazy_import import kept

Autocast = Callable[[Sequence[Any], dict[str, Any]], Any]
Function = TypeVar("Function", bound=Callable[..., Any])


class Out(NamedTuple):
    """What an operator makes of an `out`; PyTorch's agree neither on the words nor on what they refuse (core.operator.out_rules).

    dtype: raises where it doesn't write a result of the first dtype to a tensor of the second; None: whatever can be cast;
    as_computed: a pointwise operator writes to tensors of the dtype it computes in, always or given these operands. device: the
    words for one on another.
    graph: what of a call that wants a gradient is refused, in the name of its `step`; overlap: which elements `out` may have in
    common with what is read. needs_dim: `out` is taken only by calls that say a dimension. warns: whether it is said that a
    tensor with elements is resized; fitted: before what that is done; as_made: a resized tensor lies in memory as the result
    does; refuses_first: kernels refuse a dtype before that. left(arguments, whether a kernel refused): the shape that `out` is
    left with by a call that fails, or None.
    """

    dtype: Callable[[Any, Any], None] | None = None
    as_computed: bool | Callable[[Sequence[Any]], bool] = False
    device: str = "Attempting to copy from device {device} to device {own}, but cross-device copies are not allowed!"
    graph: str = "recorded"
    step: str | None = None
    overlap: str | None = None
    needs_dim: bool = False
    warns: bool = True
    fitted: str | None = None
    as_made: bool = False
    refuses_first: bool = False
    left: Callable[[Sequence[Any], bool], tuple[int, ...] | None] | None = None


#: What a tangent becomes of, where the gradient's gradient isn't asked: an operator is linear in its first argument, in each
#: tensor of it, or in all tensors that it is given together; its result doesn't move; or its body, which chooses by whether a
#: gradient is wanted, or draws random numbers, isn't looked into.
LINEAR, JOINED, TOGETHER, CONSTANT, WHOLE = "linear", "joined", "together", "constant", "whole"


class Product(NamedTuple):
    """An operator that is linear in each of two arguments, and adds a third: to every channel, if there is one, or as it is."""

    first: str
    second: str
    plus: str | None = None
    channels: bool = False


class Facets(TypedDict, total=False):
    """The keywords that every declaration takes; each is an attribute of OpDef, which says what it means."""

    autocast: Autocast | None
    overloaded: bool
    hidden: str
    factors: bool
    underneath: str
    asks: str
    written_in_python: bool
    of_numbers: bool
    of_arrays: bool
    elements: Sequence[str]
    widened: bool
    as_written: bool
    jvp: str | Product
    schema: str


class OpDef:
    """The record of an operator: its name, and the facets that its declaration gives.

    autocast: the dtype in which autocast has it computed, by its arguments (core.modes.autocast); None: it is not concerned.

    For the words of errors. overloaded: whether refusals name no argument; None: as the forms of its schema have it, of which
    `hidden` (names of overloads) are none of Python's. factors: whether it has deprecated forms in which the numbers among its
    arguments stand before tensors. underneath: its name in messages, where that is another. written_in_python: whether Python
    itself refuses its calls; None: whether it is neither in the namespace nor a method. asks: the attribute that such a function
    asks its tensor for first. of_numbers: whether it takes numbers only, too, and one for `out`; of_arrays: whether Python's
    operator takes a NumPy array. elements: names of the numbers that must be elements of the dtype of computation (others are
    taken modulo its range); widened: whether half precision counts as float32 there.

    as_written: whether modes below autograd see a default that is given, which PyTorch tells from one that isn't.

    jvp: what transform.tangents makes of its tangents; None: what its gradients or its body say.

    schema: its form as PyTorch's dispatcher would list it, "mine::name(Tensor self, int n=1) -> Tensor", perhaps with a namespace
    and, behind " | ", tags; for what a signature can't say, and needed by no other. The forms in place and with `out=` follow.
    One that PyTorch lists by another name says that, "aten::log_sigmoid". `schemas` has them all.
    """

    name: str
    autocast: Autocast | None = None
    overloaded: bool | None = None
    hidden: str = ""
    factors: bool = False
    underneath: str | None = None
    asks: str | None = None
    written_in_python: bool | None = None
    of_numbers: bool = False
    of_arrays: bool = False
    elements: Sequence[str] = ()
    widened: bool = False
    as_written: bool = False
    jvp: str | Product | None = None
    schema: str = ""
    out: Out = Out()
    public: Callable[..., Any] | None = None  # the function a caller sees
    in_place: Callable[..., Any] | None = None  # its form that writes to the first argument
    takes_out: bool = False
    published: bool = False  # whether it is in the namespace, or a method

    def __init__(self, name: str, out: bool | Out = True, **facets: Unpack[Facets]):
        self.name = name
        self.describe(out, facets)

    def describe(self, out: bool | Out, facets: Mapping[str, Any]) -> None:
        """Take over what a declaration says, and be known by name if that is something."""
        if isinstance(out, Out):
            self.out = out
        self.__dict__.update(facets)
        if "schema" in facets:
            if "(" in self.schema:
                from flambeau.core.operator.schemas import check

                check(self)
            NAMED[self.schema.partition("(")[0].partition(".")[0].strip()] = self
        if self.__dict__.keys() > {"name"}:
            RECORDS[self.name] = self
            if self.underneath is not None:
                RECORDS.setdefault(self.underneath, self)

    def said(self) -> Any:
        """What the declaration says to a schema (core.operator.schemas.Said)."""
        raise NotImplementedError(f"{self.name} is no declared operator")

    @kept
    def schemas(self) -> dict[str, dict[str, str]]:
        """Its forms by the names of PyTorch's dispatcher: by packet ("aten::add", "aten::add_"), then by overload, each a line as
        `base/operators.txt` has it. Worked out when first asked for (core.operator.schemas).
        """
        from flambeau.core.operator import schemas

        return schemas.of(self)

    @kept
    def own_schemas(self) -> dict[str, dict[str, str]]:
        """The same as the declaration itself says it: `schemas` of an operator that PyTorch doesn't list, and of one that
        it does the forms by the function's own arguments, "flambeau::add".
        """
        from flambeau.core.operator import schemas

        return schemas.own(self)

    @property
    def is_graph_operator(self) -> bool:
        """Whether graphs have a call as one step, under the operator's own name; what is public in no place, and has no schema
        written beside it, or is Python in PyTorch, is what others are made of.
        """
        return bool(self.schema) or (self.published and not self.written_in_python)


#: By the names of their schemas the declarations that no other table has by these: views, and those that write a schema.
NAMED: dict[str, OpDef] = {}
#: The records of public functions that say something of themselves, by name.
RECORDS: dict[str, OpDef] = {}
SILENT = OpDef("")  # one that says nothing


def record_of(name: str) -> OpDef:
    """The record of the function with that name, or whose in-place form has it; one of defaults only if there is none."""
    return RECORDS.get(name) or RECORDS.get(name.removesuffix("_")) or OpDef(name)


def described(out: bool | Out = True, **facets: Unpack[Facets]) -> Callable[[Function], Function]:
    """Say of a plain function what declarations say of operators; it may hand on to an operator of its name, whose record it is
    then.
    """

    def describe(function: Function) -> Function:
        name = function.__name__
        (RECORDS.get(name) or OpDef(name)).describe(out, facets)
        return function

    return describe
