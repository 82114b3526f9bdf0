"""torch.jit.script, and torch.compile, which gives a function back and a module within another, and warns once."""

from __future__ import annotations

import copy
import pickle
from typing import NamedTuple

import pytest

import flambeau as torch
from flambeau.base import warn

nn = torch.nn


@pytest.fixture(autouse=True)
def heard_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warn, "_given", set())


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_a_module_comes_back_within_another() -> None:
    module = nn.Sequential(nn.Linear(2, 2)).eval()
    made = torch.compile(module)
    assert made._orig_mod is module and type(made) is torch._dynamo.OptimizedModule and torch.compile(made)._orig_mod is module
    assert list(made.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"] and not made.training and len(made) == 1
    assert set(module.__dict__) == set(nn.Sequential().__dict__) and "0" not in dir(made) and "append" in dir(made)


def test_a_compiled_class_is_the_class() -> None:
    class Own(nn.Linear):  # its calls are compiled from then on
        pass

    own, x = Own(2, 2), torch.ones(1, 2)
    expected = own(x)
    assert torch.compile(Own) is Own
    assert all(torch.equal(own(x), expected) for _ in range(3))


def test_attributes_of_a_compiled_module_are_those_of_the_one_within() -> None:
    module = nn.Linear(2, 2)
    made = torch.compile(module)
    made.name, made.extra = "x", nn.Parameter(torch.ones(1))
    made.eval()
    assert module.name == made.name == "x" and "extra" in module._parameters and not module.training
    del made.name
    assert not hasattr(module, "name") and made.in_features == 2
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'surely_not'"):
        made.surely_not
    with pytest.raises(TypeError, match=r"Linear does not support len\(\)"):
        len(made)


def test_calls_of_a_compiled_module_run_the_hooks_of_both() -> None:
    heard = []
    module = nn.Linear(2, 2)
    made = torch.compile(module)
    made.register_forward_hook(lambda *_: heard.append("around"))
    module.register_forward_hook(lambda *_: heard.append("within"))
    x = torch.ones(1, 2)
    assert torch.equal(made(x), module(x)) and heard == ["within", "around", "within"]
    copied = copy.deepcopy(made)
    assert copied._orig_mod is not module and torch.equal(copied(x), module(x))
    made._orig_mod = nn.Identity()
    assert made(x) is x and torch._dynamo.eval_frame.innermost_fn(made) is made._orig_mod


def test_what_can_not_be_a_script() -> None:
    with pytest.raises(RuntimeError, match=r"inherits from nn\.Module, pass an instance"):
        torch.jit.script(nn.Linear)
    with pytest.raises(TypeError, match="not int"):
        torch.jit.script(5)
    with pytest.raises(RuntimeError, match="undefined value unknown"):
        torch.jit.script(names_nothing)


def names_nothing(x):
    return unknown(x)  # noqa: F821


class Scaled(torch.jit.ScriptModule):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), 3.0))

    @torch.jit.script_method
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


class Trained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.BatchNorm1d(4), nn.Linear(4, 2))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.layers(x)


def test_marked_methods_are_compiled_when_an_object_is_made() -> None:
    module = Scaled()
    assert isinstance(module, torch.jit.ScriptModule) and "torch.mul" in module.code
    assert module(torch.ones(1)).item() == 3 and copy.deepcopy(module).scale is not module.scale


def test_a_module_trains_as_in_python() -> None:
    torch.manual_seed(0)
    plain = Trained().eval()
    made = torch.jit.script(copy.deepcopy(plain))
    x = torch.randn(5, 3)
    assert torch.equal(made(x), plain(x)) and list(made.state_dict()) == list(plain.state_dict())
    made.train()
    assert made.training and made.layers[2].training
    made(x).sum().backward()
    assert all(p.grad is not None for p in made.parameters()) and made.calls == 2
    assert made.layers[3].num_batches_tracked == 1
    made.eval()
    again = copy.deepcopy(made)
    assert torch.equal(again(x), made(x)) and again.calls == made.calls
    again.load_state_dict(plain.state_dict())
    assert torch.equal(again(x), plain(x)) and not torch.equal(made(x), plain(x))


def called(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    return x * n


@torch.jit.script
def calling(x: torch.Tensor) -> torch.Tensor:
    return called(x) + called(x, n=3)


def test_a_function_has_a_program() -> None:
    assert isinstance(calling, torch.jit.ScriptFunction) and torch.jit.script(calling) is calling
    assert calling(torch.ones(1)).item() == 5
    assert str(calling.schema) == "calling(Tensor x) -> Tensor" and calling.name == "calling"
    assert "CallFunction" in str(calling.graph) and "CallFunction" not in str(calling.inlined_graph)
    x = torch.ones(1, requires_grad=True)
    calling(x).backward()
    assert x.grad is not None and x.grad.item() == 5
    with pytest.raises(pickle.PickleError):
        pickle.dumps(calling)


def test_compile_as_a_decorator_and_in_place() -> None:
    @torch.compile(mode="max-autotune", dynamic=True)
    def triple(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    assert triple(torch.ones(1)).item() == 3
    module = nn.Linear(2, 2)
    before = module(torch.ones(1, 2))
    module.compile()
    assert torch.equal(module(torch.ones(1, 2)), before)


def test_what_compile_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(double, mode="default", options={})
    with pytest.raises(RuntimeError, match="Unrecognized mode=quick"):
        torch.compile(double, mode="quick")
    with pytest.raises(AssertionError, match="callable function is expected"):
        torch.compile(5)  # type: ignore[call-overload]
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    assert torch.compile(double, fullgraph=True) is double


@torch.jit.script
class Counted:
    def __init__(self, count: int) -> None:
        self.count = count

    @classmethod
    def made(cls, count: int):
        return cls(count)

    @classmethod
    def of(self, count: int):
        return Counted(count * 10)

    def next(self):
        return self.made(self.count + 1)

    def tenfold(self):
        return self.of(self.count)

    def like(self, other: torch.Tensor) -> bool:
        return isinstance(other, self.__class__)


def test_methods_of_a_class_are_called_through_its_objects() -> None:
    assert torch.jit.script(counts)(3) == 40
    assert not torch.jit.script(compares)(3)


def counts(x: int) -> int:
    return Counted(x).next().tenfold().count


def compares(x: int) -> bool:
    return Counted(x).like(torch.ones(1))  # PyTorch takes `self.__class__` there for the type of None


def test_functions_of_rooms_that_are_loaded_late_are_operators_too() -> None:
    made = torch.jit.script(sparse)(torch.tensor([[0, 1], [1, 0]]), torch.tensor([3.0, 4.0]), [2, 3])
    assert made.to_dense().tolist() == [[0, 3, 0], [4, 0, 0]]


def sparse(index: torch.Tensor, value: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    return torch.sparse_coo_tensor(index, value, sizes)


def holds(text: str, part: str) -> bool:
    return part in text


def sized(size: int | tuple[int, int] | None = None) -> tuple[int, int]:
    if size is None:
        size = 3
    return (size, size) if isinstance(size, int) else size


def refused(size: float | list[int] = 2) -> bool:
    return isinstance(size, float)


def asks(x: torch.Tensor) -> torch.Tensor:
    return x if torch.compiler.is_compiling() else torch.sparse.mm(x.to_sparse(), x)


def test_questions_and_defaults_of_scripts() -> None:
    assert torch.jit.script(holds)("text", "ex") and not torch.jit.script(holds)("text", "ext ")
    made = torch.jit.script(sized)
    assert made() == (3, 3) and made((1, 2)) == (1, 2) and "size=None" in str(made.schema)
    with pytest.raises(RuntimeError, match="Expected a default value of type Union"):
        torch.jit.script(refused)
    assert torch.jit.script(asks)(2 * torch.eye(2)).tolist() == [[4, 0], [0, 4]]


class Described(NamedTuple):
    kind: type[int]


class Describing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.described = Described(int)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_attributes_without_a_type_matter_where_they_are_used() -> None:
    assert torch.jit.script(Describing())(torch.ones(1)).item() == 2
