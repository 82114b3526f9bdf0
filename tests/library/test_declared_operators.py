"""Operators that a program declares, and that PyTorch doesn't list: all that follows from the declaration and its schema.

A pointwise operator, a composite without a kernel, a view, one that writes to its argument, and one that names its namespace are
declared in a module of their own, and walk through everything that asks for schemas.
"""

from __future__ import annotations

import importlib.util
import io
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from taken_back import declarations_taken_back

import flambeau as torch
import flambeau.distributed as dist
from flambeau._subclasses.fake_tensor import FakeTensorMode
from flambeau.core.operator.schema_index import declaration_of
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.tensor import DTensor, Shard
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.testing._internal.distributed.fake_pg import FakeStore
from flambeau.utils._python_dispatch import TorchDispatchMode

pytestmark = [pytest.mark.filterwarnings("ignore:`torch.jit"), pytest.mark.filterwarnings("ignore:There is a performance drop")]

MODULE = '''
    from __future__ import annotations

    import flambeau as torch
    from flambeau.core.operator.annotations import Number, Operand
    from flambeau.core.operator.define import composite, operator
    from flambeau.core.operator.publishing import publish
    from flambeau.core.operator.variants import pointwise
    from flambeau.core.operator.view import declare, embed
    from flambeau.core.tensor.tensor import Tensor
    from flambeau.ir import scalar as s
    from flambeau.ops.indexing.mutating import mutating


    @pointwise(kind="float")
    def frobnicate(input: Tensor, beta: Number = 1):
        """input * tanh(beta * input)."""
        return input * s.tanh(beta * input)


    @pointwise(kind="float", function=False, method=False,
               schema="mine::tilted(Tensor self, Tensor other, Scalar by=2) -> Tensor")
    def tilted(input: Tensor, other: Tensor, by: Number = 2):
        """input + by * other."""
        return input + by * other


    @composite()
    def sine_sum(input: Tensor, other: Tensor, dim: int = -1, *, scale: float = 1.0) -> Tensor:
        """The sum of products along a dimension."""
        return (torch.sin(input) * other).sum(dim) * scale


    def _every_other(shape, strides, start: int):
        return (*shape[:-1], (shape[-1] - start + 1) // 2), (*strides[:-1], strides[-1] * 2), start * strides[-1]


    every_other = declare("every_other", "EveryOtherBackward0", _every_other,
                          lambda g, layout, start: embed(g, layout, every_other, start), ("start",))
    publish("every_other", every_other)


    @mutating()
    def bump(input: Tensor, by: Tensor, times: int = 1):
        """Adds `by` so many times."""
        input.copy_(input.detach() + by.detach() * times)


    @bump.vjp
    def _(g, times, need):
        return g if need["input"] else None, g * times if need["by"] else None


    @operator(function=False, method=False)
    def hidden(input: Tensor) -> Tensor:
        """What other operators are made of."""
        return input.detach() + 1


    @operator()
    def untold(input: Tensor):
        """Says nothing of its result."""
        return input.detach() + 1
'''


class Case(NamedTuple):
    """A call; `called`: the same by the operator's name, as torch.ops has it; schema: the form that is called."""

    code: str
    called: str
    schema: str
    #: The operators that a mode below autograd sees, and that a program taken apart has.
    seen: str
    #: Whether a DTensor sharded in the first dimension stays so.
    sharded: bool = False


CASES = {
    "pointwise": Case(
        "torch.frobnicate(x, 2.0)",
        "torch.ops.flambeau.frobnicate(x, 2.0)",
        "flambeau::frobnicate(Tensor self, Scalar beta=1) -> Tensor",
        "flambeau.frobnicate.default",
        True,
    ),
    "pointwise in place": Case(
        "(x * 1).frobnicate_(0.5)",
        "torch.ops.flambeau.frobnicate_(x * 1, 0.5)",
        "flambeau::frobnicate_(Tensor(a!) self, Scalar beta=1) -> Tensor(a!)",
        "aten.mul.Tensor flambeau.frobnicate_.default",
        True,
    ),
    "own namespace": Case(
        "module.tilted(x, y)",
        "torch.ops.mine.tilted(x, y)",
        "mine::tilted(Tensor self, Tensor other, Scalar by=2) -> Tensor",
        "mine.tilted.default",
        True,
    ),
    "composite": Case(
        "torch.sine_sum(x, y, 0, scale=2.0)",
        "torch.ops.flambeau.sine_sum(x, y, 0, scale=2.0)",
        "flambeau::sine_sum(Tensor self, Tensor other, SymInt dim=-1, *, float scale=1.) -> Tensor",
        "aten.sin.default aten.mul.Tensor aten.sum.dim_IntList aten.mul.Tensor",
    ),
    "view": Case(
        "torch.every_other(x, 1) * 1",
        "torch.ops.flambeau.every_other(x, 1) * 1",
        "flambeau::every_other(Tensor(a) self, SymInt start) -> Tensor(a)",
        "flambeau.every_other.default aten.mul.Tensor",
    ),
    "mutating": Case(
        "torch.bump(x, y, times=2)",
        "torch.ops.flambeau.bump(x, y, times=2)",
        "flambeau::bump(Tensor self, Tensor by, SymInt times=1) -> Tensor",
        "flambeau.bump.default",
    ),
    "mutating in place": Case(
        "(x * 1).bump_(y, 3)",
        "torch.ops.flambeau.bump_(x * 1, y, 3)",
        "flambeau::bump_(Tensor(a!) self, Tensor by, SymInt times=1) -> Tensor(a!)",
        "aten.mul.Tensor flambeau.bump_.default",
    ),
}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module of the declarations, with a function for each case, and for each by torch.ops."""
    functions = "".join(
        f"def call_{i}_{which}(x: torch.Tensor, y: torch.Tensor):\n    return {code.replace('module.', '')}\n\n\n"
        for i, case in enumerate(CASES.values())
        for which, code in enumerate(case[:2])
    )
    path = tmp_path_factory.mktemp("declared") / "declared_operators.py"
    path.write_text(textwrap.dedent(MODULE) + "\n\n" + functions, encoding="utf-8")
    with declarations_taken_back():
        spec = importlib.util.spec_from_file_location("declared_operators", path)
        assert spec is not None and spec.loader is not None
        made = sys.modules["declared_operators"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        yield made
    del sys.modules["declared_operators"]


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def call(module: Any, case: Case) -> Callable[..., Any]:
    """The case's call, as a function of x and y."""
    return getattr(module, f"call_{list(CASES.values()).index(case)}_0")


@pytest.fixture
def called(module: Any, case: Case) -> Callable[..., Any]:
    """The same call by the operator's name."""
    return getattr(module, f"call_{list(CASES.values()).index(case)}_1")


X, Y = torch.linspace(-1, 2, 12).reshape(3, 4), torch.linspace(3, -1, 12).reshape(3, 4)
LARGER = torch.linspace(-2, 2, 20).reshape(5, 4), torch.linspace(1, 3, 20).reshape(5, 4)
WIDER = torch.linspace(-2, 2, 21).reshape(3, 7), torch.linspace(1, 3, 21).reshape(3, 7)


def overload_of(case: Case) -> Any:
    namespace, _, name = case.schema.partition("(")[0].partition("::")
    return getattr(getattr(torch.ops, namespace), name).default


class Called(torch.nn.Module):
    """A module that makes the case's call."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.call(x, y)


def targets(graph: Any) -> str:
    return " ".join(str(node.target) for node in graph.nodes if node.op == "call_function")


# ---------------------------------------------------------------- torch.ops and the record


def test_torch_ops_has_the_operator(case: Case, call: Callable, called: Callable) -> None:
    overload = overload_of(case)
    assert str(overload._schema) == case.schema
    assert torch.equal(called(X, Y), call(X, Y))
    declared = overload.declaration
    assert declared is declaration_of(overload.name()) and case.schema.partition("(")[0] in declared.schemas
    assert (torch.Tag.pointwise in overload.tags) == case.sharded
    assert overload.is_view == ("every_other" in case.code)


def test_out_forms_are_there(module: Any) -> None:
    out = torch.empty(0)
    torch.ops.flambeau.frobnicate.out(X, 2.0, out=out)
    assert torch.equal(out, torch.frobnicate(X, 2.0))
    assert str(torch.ops.flambeau.frobnicate.out._schema) == (
        "flambeau::frobnicate.out(Tensor self, Scalar beta=1, *, Tensor(a!) out) -> Tensor(a!)"
    )


def test_a_name_that_pytorch_lists_is_pytorchs() -> None:
    assert "aten::tanh" in declaration_of("aten::tanh_").schemas  # type: ignore[union-attr]
    assert torch.ops.aten.tanh.default.declaration is declaration_of("aten::tanh")


def test_kernels_of_a_library_take_its_place(module: Any) -> None:
    library = torch.library.Library("flambeau", "IMPL")
    library.impl("frobnicate", lambda x, beta=1: x * 0, "CPU")
    try:
        assert not torch.frobnicate(X, 2.0).any() and not torch.ops.flambeau.frobnicate(X, 2.0).any()
    finally:
        library._destroy()
    assert torch.equal(torch.frobnicate(X, 2.0), X * torch.tanh(X * 2))


# ---------------------------------------------------------------- below autograd


def test_modes_see_it(case: Case, call: Callable) -> None:
    seen = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Seen():
        made = call(X, Y)
    assert torch.equal(made, call(X, Y)) and " ".join(seen) == case.seen


def test_fake_tensors_have_its_layout(call: Callable) -> None:
    with FakeTensorMode() as mode:
        made = call(mode.from_tensor(X), mode.from_tensor(Y))
    assert (made.shape, made.stride()) == (call(X, Y).shape, call(X, Y).stride())


def test_gradients_are_recorded_for_other_sizes(call: Callable) -> None:
    def gradients(x: torch.Tensor, y: torch.Tensor) -> Any:
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        return torch.autograd.grad(call(x, y).sin().sum(), (x, y), allow_unused=True)[0]

    made = make_fx(gradients, tracing_mode="symbolic")(X, Y)
    assert torch.allclose(made(*LARGER), gradients(*LARGER))


def test_transforms_take_it(call: Callable) -> None:
    batched = torch.vmap(call)(torch.stack([X, X + 1]), torch.stack([Y, Y]))
    assert torch.equal(batched[1], call(X + 1, Y))
    x, y, step = X.double(), Y.double(), 1e-6
    tangent = torch.func.jvp(call, (x, y), (y, x))[1]
    assert torch.allclose(tangent, (call(x + step * y, y + step * x) - call(x - step * y, y - step * x)) / (2 * step), atol=1e-7)


# ---------------------------------------------------------------- graphs


def test_it_exports(case: Case, call: Callable) -> None:
    program = torch.export.export(Called(call), (X, Y))
    assert torch.equal(program.module()(X, Y), call(X, Y)) and str(overload_of(case)) in targets(program.graph)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert targets(loaded.graph) == targets(program.graph) and torch.equal(loaded.module()(X, Y), call(X, Y))
    apart = program.run_decompositions()
    assert targets(apart.graph) == case.seen.replace("_.default", ".default")
    assert torch.equal(apart.module()(X, Y), call(X, Y))


@pytest.mark.parametrize(("dim", "others"), [(0, LARGER), (1, WIDER)])
def test_it_exports_for_other_sizes(call: Callable, dim: int, others: tuple[torch.Tensor, torch.Tensor]) -> None:
    size = {dim: torch.export.Dim("size")}
    program = torch.export.export(Called(call), (X, Y), dynamic_shapes={"x": size, "y": size})
    assert torch.equal(program.module()(*others), call(*others))


@pytest.mark.parametrize(("dim", "others"), [(0, LARGER), (1, WIDER)])
def test_a_write_through_a_view_is_taken_apart(module: Any, dim: int, others: tuple[torch.Tensor, torch.Tensor]) -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x * 1
        x.every_other(1).mul_(2)  # type: ignore[attr-defined]
        return x + y

    size = {dim: torch.export.Dim("size")}
    program = torch.export.export(Called(call), (X, Y), dynamic_shapes={"x": size, "y": size}).run_decompositions()
    assert "mul_." not in targets(program.graph) and torch.equal(program.module()(*others), call(*others))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx_records_it(case: Case, call: Callable, mode: str) -> None:
    made = make_fx(call, tracing_mode=mode)(X, Y)
    assert torch.equal(made(X, Y), call(X, Y)) and targets(made.graph) == case.seen


def test_it_is_traced(case: Case, call: Callable) -> None:
    traced = torch.jit.trace(call, (X, Y))
    assert f"{case.schema.partition('(')[0]}(" in str(traced.graph)
    assert torch.equal(traced(*LARGER), call(*LARGER))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(*LARGER), call(*LARGER))


def test_it_is_scripted(case: Case, call: Callable, called: Callable) -> None:
    for function in (call, called):
        scripted = torch.jit.script(function)
        assert "ops." + case.schema.partition("(")[0].replace("::", ".") in scripted.code
        assert torch.equal(scripted(*LARGER), call(*LARGER))


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if case.sharded], indirect=True)
def test_a_sharded_tensor_stays_sharded(case: Case, call: Callable) -> None:
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=3)
    try:
        mesh = init_device_mesh("cpu", (3,))
        made = call(*(DTensor.from_local(x[1:2], mesh, [Shard(0)]) for x in (X, Y)))
        assert made.placements == (Shard(0),) and torch.equal(made.to_local(), call(X, Y)[1:2])
    finally:
        dist.destroy_process_group()


# ---------------------------------------------------------------- what isn't public, or doesn't say enough


def test_what_is_public_nowhere_is_no_operator_of_graphs(module: Any) -> None:
    assert torch.equal(torch.ops.flambeau.hidden(X), X + 1)
    for record in (
        lambda: torch.export.export(Called(lambda x, y: module.hidden(x)), (X, Y)),
        lambda: torch.jit.trace(lambda x: module.hidden(x), (X,)),
    ):
        with pytest.raises(NotImplementedError, match="hidden with these arguments is not implemented in flambeau as an oper"):
            record()


def test_a_result_must_be_told(module: Any) -> None:
    assert str(torch.ops.flambeau.untold.default._schema) == "flambeau::untold(Tensor self) -> Any"
    with pytest.raises(NotImplementedError, match="untold: its declaration doesn't say what it returns; annotate the result"):
        torch.export.export(Called(lambda x, y: torch.untold(x)), (X, Y))


def test_a_declaration_in_the_place_of_another_has_its_own_schema(module: Any) -> None:
    from flambeau.core.operator.annotations import Number
    from flambeau.core.operator.variants import pointwise
    from flambeau.core.tensor.tensor import Tensor

    with declarations_taken_back():

        def shifted(input: Tensor):  # type: ignore[no-untyped-def]
            return input + 1

        first = pointwise(kind="float")(shifted)
        assert torch.equal(torch.ops.flambeau.shifted(X), X + 1)

        def shifted(input: Tensor, by: Number = 2):  # type: ignore[no-redef, no-untyped-def]
            return input + by

        second = pointwise(kind="float")(shifted)
        assert torch.equal(torch.ops.flambeau.shifted(X, 3), X + 3) and first is not second
        assert torch.ops.flambeau.shifted.default.declaration is second.operator
        assert "flambeau.shifted.default" in targets(torch.export.export(Called(lambda x, y: torch.shifted(x, 3)), (X, Y)).graph)
