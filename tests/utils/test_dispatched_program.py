"""Over 200 operators, forward and backward: a mode below autograd sees what PyTorch's sees of them, and changes nothing."""

import importlib.util
import json
import pathlib
from collections import Counter

import pytest

import flambeau as torch

HERE = pathlib.Path(__file__).with_name("dispatched")
_found = importlib.util.spec_from_file_location("dispatched_program", HERE / "dispatched_program.py")
program = importlib.util.module_from_spec(_found)
_found.loader.exec_module(program)

RECORDED = json.loads(program.RECORDED.read_text())
#: What isn't seen of a call, forward and backward: where this package computes by operators of its own.
DEPARTURES = json.loads((HERE / "departures.json").read_text())
DRAWS = ("dropout", "rand", "bernoulli", "multinomial", "normal", "empty")


def missing(code):
    seen = (program.steps(torch, code[10:]), []) if code.startswith("optimizer ") else program.seen(torch, code)
    wanted = [Counter(part.split()) for part in RECORDED[code]]
    return [" ".join(sorted((want - Counter(have)).elements())) for want, have in zip(wanted, seen)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", RECORDED)
def test_a_mode_sees_what_pytorchs_sees(code):
    assert missing(code) == DEPARTURES.get(code, ["", ""])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", [code for code in program.CALLS if not any(word in code for word in DRAWS)])
def test_results_and_gradients_are_the_same_under_a_mode(code):
    def results(mode):
        given = program.scope(torch)
        with mode or torch.enable_grad():
            result = eval(code, given)
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.sum().backward() if not result.is_complex() else result.abs().sum().backward()
        leaves = [x for x in given.values() if isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad]
        leaves += [p for x in given.values() if isinstance(x, torch.nn.Module) for p in x.parameters()]
        return result, [x.grad for x in leaves]

    expected, gradients = results(None)
    found, under = results(program.recorder(torch))
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert [g is None for g in under] == [g is None for g in gradients]
    for g, e in zip(under, gradients):
        if e is not None:
            torch.testing.assert_close(g, e, equal_nan=True, atol=1e-5, rtol=1e-4)


if __name__ == "__main__":
    found = {code: missing(code) for code in RECORDED}
    lines = [f"{json.dumps(code)}: {json.dumps(parts)}" for code, parts in found.items() if any(parts)]
    (HERE / "departures.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def test_a_chunk_whose_places_are_known_is_seen_as_well():
    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        names: list[str] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(4, 6)
    x.chunk(3, 1)
    with Seen():
        x.chunk(3, 1)
    assert Seen.names == ["aten.split.Tensor"]
