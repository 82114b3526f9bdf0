"""Programs that are written and read back: interfaces, forks, hooks, defaults; and who is told of what is compiled."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

import flambeau as torch
from flambeau import _C
from flambeau._jit_internal import _disable_emit_hooks
from flambeau.jit._recursive import ConcreteTypeStore

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")


def _code(content: bytes) -> dict[str, bytes]:
    archive = zipfile.ZipFile(io.BytesIO(content))
    return {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}


def _again(program: Any) -> Any:
    """The program, written and read back; what is written of that is the same."""
    content = program.save_to_buffer()
    made = torch.jit.load(io.BytesIO(content))
    assert _code(made.save_to_buffer()) == _code(content)
    return made


@torch.jit.interface
class Doubling(torch.nn.Module):
    def one(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pass


class Twice(torch.nn.Module):
    def one(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x, x)


class Holder(torch.nn.Module):
    part: Doubling

    def __init__(self) -> None:
        super().__init__()
        self.part = Twice()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part.one(x, x)


def test_interfaces() -> None:
    made = _again(torch.jit.script(Holder()))
    assert made(torch.ones(1)).item() == 2


def later(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 1):
        return x * y
    return x - y


def forked(x: torch.Tensor):
    future = torch.jit.fork(later, x, y=x * 3)
    return torch.jit.wait(future) + 1


def awaited(x: torch.Tensor):
    result = torch.jit._awaitable(later, x, x * 3)
    return torch.jit._awaitable_wait(result) + result.sum()


def test_forks_and_what_waits_to_be_called() -> None:
    for program, wanted in ((forked, [13.0]), (awaited, [24.0])):
        made = _again(torch.jit.script(program))
        assert made(torch.tensor([2.0])).tolist() == program(torch.tensor([2.0])).tolist() == wanted


def test_a_call_that_waits_is_made_once_and_stands_for_its_result() -> None:
    calls = []

    def call(x):
        calls.append(x)
        return x + 1

    waiting = torch.jit._awaitable(call, torch.ones(2))
    assert not calls and waiting.fn() is call and not waiting.is_nowait()
    assert waiting.shape == (2,) and torch.jit._awaitable_wait(waiting).tolist() == [2, 2] and len(calls) == 1
    there = torch.jit._awaitable_nowait(3)
    assert there.is_nowait() and there.args() == (3,)
    with pytest.raises(RuntimeError, match="constructed as awaitable_nowait"):
        there.fn()


class Named(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: list[str]) -> list[str]:
        x.append(self.name)
        return x


class Around(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Named("part")

    def forward(self, x: list[str]) -> list[str]:
        return self.part(x)


def _before(self, input: tuple[list[str]]) -> tuple[list[str]]:
    self.name = "renamed"
    return (["before"],)


def _behind(self, input: tuple[list[str]], output: list[str]) -> list[str]:
    return output + ["behind"]


def test_hooks_are_written_and_run() -> None:
    module = Around()
    module.part.register_forward_pre_hook(_before)
    module.part.register_forward_hook(_behind)
    program = torch.jit.script(module)
    wanted = ["before", "renamed", "behind"]
    assert program(["x"]) == wanted
    made = _again(program)
    assert made(["x"]) == wanted and made.part(["y"]) == wanted


class Defaults(torch.nn.Module):
    def forward(self, x: torch.Tensor, y=torch.zeros(1)):  # noqa: B008
        return x + y


def test_defaults_that_are_tensors_are_written_for_methods() -> None:
    assert _again(torch.jit.script(Defaults()))(torch.ones(1)).item() == 1


class Stated(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.ones(2))

    @torch.jit.export
    def __getstate__(self):
        return (self.b, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]):
        self.b = state[0] * 2
        self.training = state[1]

    def forward(self, x: torch.Tensor):
        return x + self.b


def test_modules_that_say_their_state() -> None:
    content = torch.jit.script(Stated()).save_to_buffer()
    assert torch.jit.load(io.BytesIO(content))(torch.zeros(2)).tolist() == [2, 2]


def test_a_traced_module_is_a_part_of_a_compiled_one() -> None:
    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = torch.jit.trace(torch.nn.Linear(2, 3), torch.ones(1, 2))

        def forward(self, x):
            return self.part(x) * 2

    module = Outer()
    assert _again(torch.jit.script(module))(torch.ones(1, 2)).equal(module(torch.ones(1, 2)))


def test_hooks_are_told_of_what_is_compiled() -> None:
    told: list[tuple[str, str]] = []

    def inner(x):
        return x + 1

    def outer(x):
        return inner(x) * 2

    class Module(torch.nn.Module):
        def forward(self, x):
            return outer(x)

    _C._jit_set_emit_hooks(
        lambda module: told.append(("module", module.qualified_name.rpartition(".")[2])),
        lambda function: told.append(("function", function.name)),
    )
    try:
        torch.jit.script(outer)
        program = torch.jit.script(Module())
        torch.jit.trace(lambda x: x * 2, torch.ones(1))
        with _disable_emit_hooks():
            torch.jit.script(lambda_free)
    finally:
        _C._jit_set_emit_hooks(None, None)
    assert told == [("function", "inner"), ("function", "outer"), ("module", "Module"), *told[3:]]
    assert "lambda_free" not in [name for _, name in told]
    assert _C._ivalue_tags_match(program._c, _again(program)._c) and ConcreteTypeStore().type_store == {}


def lambda_free(x):
    return x


def test_texts_may_be_indented_and_say_types_in_comments() -> None:
    unit = torch.jit.CompilationUnit("""
        def f(x, y):
            # type: (int, Tensor) -> Tensor
    # a comment on the left
            return y * x
        def g(x):
            return x
    """)
    assert unit.f(3, torch.ones(1)).item() == 3 and str(unit.f.schema) == "f(int x, Tensor y) -> Tensor"


def test_lists_and_dicts_that_programs_change_in_place() -> None:
    numbers, table = torch.jit.script([1, 2]), torch.jit.script({"a": 1.0})

    @torch.jit.script
    def change(x: list[int], t: dict[str, float]):
        x.append(3)
        t["b"] = 2.0

    plain = [1]
    change(numbers, table)
    change(plain, {})
    assert list(numbers) == [1, 2, 3] and dict(table) == {"a": 1.0, "b": 2.0} and plain == [1]
    with pytest.raises(TypeError):
        numbers.append("x")
    with pytest.raises(TypeError):
        table[1] = 2.0
    with pytest.raises(torch.jit.Error, match="Unable to infer type of list"):
        torch.jit.script([1, "a"])


def test_what_is_a_truth_value_of_python_is_one_of_programs() -> None:
    @torch.jit.script
    def given(x: bool, xs: list[bool]):
        return x, xs

    assert given(2, [0, 1.5, None]) == (True, [False, True, False])
    with pytest.raises(RuntimeError, match="Expected a value of type 'bool'"):
        given("a", [])


@torch.jit.ignore
def _python(x: torch.Tensor) -> int:
    return 3


def test_calls_of_python_are_not_written() -> None:
    def calling(x):
        return _python(x)

    with pytest.raises(RuntimeError, match="Could not export Python function call '_python'"):
        torch.jit.script(calling).save_to_buffer()


@torch.jit.ignore
def _tuples(x: torch.Tensor) -> torch.Tensor:
    return ((3, 4),)


@torch.jit.ignore
def _number(x: torch.Tensor) -> float:
    return 3


def test_results_of_python_are_what_was_declared() -> None:
    def wrong(x):
        return _tuples(x)

    def converted(x):
        return _number(x)

    with pytest.raises(RuntimeError, match="expected value of type Tensor for return value but instead got value of type tuple"):
        torch.jit.script(wrong)(torch.ones(1))
    assert type(torch.jit.script(converted)(torch.ones(1))) is float


def test_a_submodule_gives_way_only_to_a_program_of_its_kind() -> None:
    program = torch.jit.script(Holder())
    with pytest.raises(RuntimeError, match="Cannot re-assign modules in a ScriptModule with non-scripted module"):
        program.part = Twice()
    with pytest.raises(RuntimeError, match="is not compatible with interface"):
        program.part = torch.jit.script(Named("x"))

    class Other(Twice):
        def one(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x - y

    program.part = torch.jit.script(Other())
    assert program(torch.ones(1)).item() == 0
