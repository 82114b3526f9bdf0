"""torch.jit.trace: the graphs and the code of traced programs are PyTorch's, they run, and warn of what they can't record."""

from __future__ import annotations

import copy
import importlib.util
import json
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.core.modes import interception

nn = torch.nn
HERE = Path(__file__).parent / "traces"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::flambeau.jit.TracerWarning", "ignore::UserWarning")


def _loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"traces_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases, zoo = _loaded("cases"), _loaded("models")
# What differs: the library's own code has other names for what it has at hand, or does the same by other operators.
_OTHER_TEXT = {"mha", "embbag"}
_OTHER_GRAPHS = {
    "F.normalize(x)", "x+torch.from_numpy(x.numpy())",
    "F.ctc_loss(torch.ones(4,1,3).log_softmax(2),torch.tensor([[1,2]]),torch.tensor([4]),torch.tensor([2]))",
}  # fmt: skip


def test_graphs_of_calls_are_pytorchs() -> None:
    recorded = json.loads((HERE / "recorded.json").read_text())
    different = []
    for line in cases.LINES:
        graph = torch.jit.trace(cases.function_of(line)(torch), cases.inputs(torch), check_trace=False).graph
        if cases.shortened(graph) != recorded[line]:
            different.append(line)
    assert set(different) <= _OTHER_GRAPHS


def _tensors(x: Any) -> list[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        return [x]
    items = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [each for item in items for each in _tensors(item)]


@pytest.fixture(scope="module")
def traced() -> list[tuple[str, Any, tuple[Any, ...], Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            (name, module, inputs, torch.jit.trace(module, inputs, check_trace=False, strict=False))
            for name, module, inputs in zoo.models(torch)
        ]


def test_code_of_models_and_their_parts_is_pytorchs(traced: Any) -> None:
    recorded = json.loads((HERE / "models.json").read_text())
    different = {}
    for name, _, _, program in traced:
        found = dict(zoo.codes(program))
        if name not in _OTHER_TEXT and found != recorded[name]:
            different[name] = [path for path in recorded[name] if found.get(path) != recorded[name][path]]
    assert different == {}


def test_traced_models_give_what_the_models_give_for_other_inputs_too(traced: Any) -> None:
    for name, module, inputs, program in traced:
        others = [_longer(x) if name in ("linear", "mlp", "resnet", "gpt", "gru", "shape", "unet") else x for x in inputs]
        state = torch.get_rng_state()
        expected = _tensors(module(*others))
        torch.set_rng_state(state)
        found = _tensors(program(*others))
        assert len(found) == len(expected), name
        for a, b in zip(found, expected):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, msg=name)


def _longer(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x + 0.5])


def test_parameters_are_the_modules_own_and_get_gradients() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    program = torch.jit.trace(module, torch.ones(1, 3))
    assert all(a is b for a, b in zip(module.parameters(), program.parameters()))
    assert list(program.state_dict()) == list(module.state_dict())
    x = torch.randn(5, 3)
    program(x).sum().backward()
    found = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x).sum().backward()
    assert all(torch.allclose(a, p.grad) for a, p in zip(found, module.parameters()))
    assert [type(m).__name__ for m in program.modules()][:2] == ["TopLevelTracedModule", "TracedModule"]
    assert str(program).startswith("Sequential(\n  original_name=Sequential\n  (0): Linear(original_name=Linear)")


def test_a_program_is_moved_copied_and_switched_like_a_module() -> None:
    program = torch.jit.trace(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).eval(), torch.ones(2))
    assert program.training is False and program.train().training is True
    other = copy.deepcopy(program)
    other.to(torch.float64)
    assert program(torch.ones(2)).dtype == torch.float32 and other(torch.ones(2, dtype=torch.float64)).dtype == torch.float64
    with pytest.raises(pickle.PickleError, match=r"my_script_module\.save"):
        pickle.dumps(program)
    with pytest.raises(
        RuntimeError, match=r"Expected a value of type 'Tensor' for argument 'input' but instead found type 'int'"
    ):
        program(3)


@pytest.mark.filterwarnings("default::flambeau.jit.TracerWarning")
def test_values_that_leave_the_graph_are_warned_of() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.warns(torch.jit.TracerWarning, match="Converting a tensor to a Python boolean might cause the trace") as heard:
        program = torch.jit.trace(branch, torch.ones(2))
    assert heard[-1].filename == __file__
    assert program(-torch.ones(2)).tolist() == [0, 0]
    for call, words in (
        (lambda x: x * float(x[0]), "Python float"), (lambda x: x * int(x[0]), "Python integer"),
        (lambda x: x * x[0].item(), "Python number"), (lambda x: x * len(x), "Using len to get tensor shape"),
        (lambda x: torch.stack(list(x)), "Iterating over a tensor"), (lambda x: x + torch.tensor([1, 2]), "torch.tensor results"),
    ):  # fmt: skip
        with pytest.warns(torch.jit.TracerWarning, match=words):
            torch.jit.trace(call, torch.ones(2))


def test_random_programs_fail_the_check_with_a_warning() -> None:
    with pytest.warns(torch.jit.TracerWarning, match="Trace had nondeterministic nodes"):
        torch.jit.trace(nn.Dropout(0.5), torch.ones(100))
    calls = []

    def changing(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1 if len(calls) % 2 else x * 2 * x

    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed across invocations"):
        torch.jit.trace(changing, torch.full((2,), 3.0))


def test_what_cant_be_traced_is_said_in_pytorchs_words() -> None:
    x, w = torch.ones(2), torch.ones(2, requires_grad=True)
    for function, inputs, words in (
        (lambda a: a + w, (x,), "Cannot insert a Tensor that requires grad as a constant"),
        (lambda a: 3, (x,), "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output"),
        (lambda a: None, (x,), "didn't return any values"),
        (lambda a: {"a": a}, (x,), "Encountering a dict at the output of the tracer"),
        (lambda a: (a, torch.ones(2).data), (x,), "did not have observable data dependence with trace inputs"),
        (lambda a, b: a, (x, 3), r"Type 'Tuple\[Tensor, int\]' cannot be traced"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch.jit.trace(function, inputs, check_trace=False)
    with pytest.raises(RuntimeError, match="example_kwarg_inputs should be a dict"):
        torch.jit.trace(nn.Linear(2, 2))
    with pytest.raises(NameError, match="'y' is not in forward"):
        torch.jit.trace(nn.Linear(2, 2), example_kwarg_inputs={"y": x})
    with pytest.raises(AttributeError, match="Please use trace_module"):
        torch.jit.trace(nn.Linear(2, 2).extra_repr, x)


def test_inputs_by_name_containers_and_several_methods() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 3)

        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> Any:
            return {"y": self.conv(x) * scale}

        def weighted(self, weight: torch.Tensor) -> torch.Tensor:
            return weight * self.conv.weight

    net, image = Net(), torch.ones(1, 1, 3, 3)
    program = torch.jit.trace(net, example_kwarg_inputs={"scale": torch.ones(1), "x": image}, strict=False)
    assert torch.equal(program(x=image * 2, scale=torch.ones(1))["y"], net(image * 2, torch.ones(1))["y"])
    program = torch.jit.trace_module(net, {"forward": (image, torch.ones(1)), "weighted": image}, strict=False)
    assert torch.equal(program.weighted(image * 3), net.weighted(image * 3))
    nested = torch.jit.trace(lambda d, t: d["a"] + t[0] * t[1][0], ({"a": image}, (image, [image])))
    assert torch.equal(nested({"a": image}, (image, [image * 2])), image * 3)


def test_programs_are_called_in_traces_as_they_are() -> None:
    inner = torch.jit.trace(nn.Linear(2, 2), torch.ones(2))

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) * 2

    program = torch.jit.trace(Outer(), torch.ones(2))
    assert "(inner).forward(x, )" in program.code and program.inner is inner
    assert torch.equal(program(torch.ones(2)), inner(torch.ones(2)) * 2)


def test_a_trace_is_known_where_it_runs_and_nowhere_else() -> None:
    seen: list[Any] = []

    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            from flambeau.jit import _trace

            other: list[bool] = []
            thread = threading.Thread(target=lambda: other.append(torch.jit.is_tracing() or torch.ones(2).shape != (2,)))
            thread.start()
            thread.join()
            seen.append(
                (torch.jit.is_tracing(), torch._C._get_tracing_state() is not None, _trace._trace_module_map[self], other)
            )
            return x.reshape(x.shape[0], -1)

    torch.jit.trace(nn.Sequential(Inner()), torch.ones(2, 2), check_trace=False)
    assert seen == [(True, True, "__module.0", [False])]
    assert not torch.jit.is_tracing() and torch._C._get_tracing_state() is None and torch.ones(2).shape == (2,)
    assert isinstance(torch.ones(2).shape[0], int)


def test_a_failed_trace_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError):
        torch.jit.trace(lambda x: x * (1 // 0), torch.ones(2))
    assert not torch.jit.is_tracing() and type(torch.ones(2, 3).shape[0]) is int
    assert nn.Linear(2, 2)(torch.ones(2)).shape == (2,)


def test_a_traced_program_may_be_compiled() -> None:
    program = torch.jit.trace(nn.Linear(2, 2), torch.ones(2))
    assert torch.allclose(torch.compile(program)(torch.ones(2)), program(torch.ones(2)))


def test_what_a_function_leaves_out_isnt_what_its_operator_does() -> None:
    x, y = torch.randn(2, 3), torch.rand(2, 3)
    loss = torch.binary_cross_entropy_with_logits
    interception.provide(lambda: [loss])  # as where it was asked for before a mode was first on
    assert torch.jit.trace(loss, (x, y))(x, y).shape == loss(x, y).shape == (2, 3)

    class Loss(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return loss(x, y)

    assert torch.equal(torch.export.export(Loss(), (x, y)).module()(x, y), loss(x, y))
