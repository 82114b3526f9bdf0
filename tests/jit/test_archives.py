"""torch.jit.save and load: PyTorch's archives run here, ours run in PyTorch, and what is read is written back byte for byte."""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
import os
import subprocess
import sys
import zipfile
from enum import Enum
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035 - words of programs

import pytest

import flambeau as torch

nn, Tensor = torch.nn, torch.Tensor
HERE = Path(__file__).parent
ARCHIVES = sorted((HERE / "archives").glob("*.pt"))
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::flambeau.jit.TracerWarning")


def plain(x: Any) -> Any:
    """Tensors as lists."""
    if isinstance(x, torch.Tensor):
        return x.tolist()
    if isinstance(x, (list, tuple)):
        return [plain(item) for item in x]
    return {key: plain(item) for key, item in x.items()} if isinstance(x, dict) else x


def close(a: Any, b: Any) -> bool:
    """Whether two results are the same to 1e-5."""
    if isinstance(a, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key]) for key in a)
    return abs(a - b) <= 1e-5 * (1 + abs(b)) if isinstance(a, float) else a == b


def loaded(path: Any) -> tuple[Any, dict[str, Any]]:
    """A program, and what its file says that it gives."""
    extra = {"expected.json": ""}
    return torch.jit.load(path, _extra_files=extra), json.loads(extra["expected.json"])


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.stem)
def test_pytorchs_archives_run_and_are_written_back_as_they_were(path: Path) -> None:
    program, expected = loaded(str(path))
    inputs = [torch.tensor(x) if isinstance(x, list) else x for x in expected["inputs"]]
    assert close(plain(program(*inputs)), expected["outputs"])
    again = torch.jit.load(io.BytesIO(program.save_to_buffer()))
    assert close(plain(again(*inputs)), expected["outputs"])
    old, new = zipfile.ZipFile(path), zipfile.ZipFile(io.BytesIO(program.save_to_buffer()))
    texts = {n.partition("/")[2]: new.read(n) for n in new.namelist()}
    if path.stem not in ("scripted_lstm", "scripted_flow"):  # whose texts have constants and names of a whole class
        for name in old.namelist():
            short = name.partition("/")[2]
            if short == "traced_inputs.pkl":
                continue
            if short.endswith(".py") or (short.endswith(".pkl") and path.stem != "scripted_parts"):
                assert texts[short] == old.read(name), short


def test_a_program_is_a_module_with_attributes_methods_and_state() -> None:
    program, _ = loaded(str(HERE / "archives" / "scripted_flow.pt"))
    assert program.scale == 0.5 and program.table == {"a": 1, "bb": 2} and program.extra is None and program.training
    assert program.other([1, 2, 3]) == [1, 4, 9] and program.original_name == "Flow"
    assert list(program.state_dict()) == ["steps"] and program.steps.tolist() == [0, 1, 2]
    total, made, point = program(torch.ones(3), 1)
    assert type(point).__name__ == "Point" and set(made) == {"a", "bb"}
    program.extra = torch.ones(3) * 10
    assert torch.allclose(program(torch.ones(3), 1)[0], total + 20)
    with pytest.raises(RuntimeError, match="Could not cast attribute 'scale' to type float"):
        program.scale = "a lot"
    assert not program.eval().training
    assert program.to(torch.float64).steps.dtype == torch.float64
    assert "def forward(self,\n    x: Tensor,\n    n: int)" in program.code and "prim::Loop" in str(program.graph)


def test_parameters_that_are_one_stay_one_and_learn() -> None:
    program, _ = loaded(str(HERE / "archives" / "scripted_parts.pt"))
    assert program.shared is program.layers[0].weight and len(list(program.parameters())) == 4
    program(torch.ones(1, 2))[1].sum().backward()
    assert all(p.grad is not None for p in program.parameters())


def test_extra_files_locations_and_files_that_are_none(tmp_path: Path) -> None:
    program = torch.jit.trace(nn.Linear(2, 2), torch.ones(2))
    torch.jit.save(program, tmp_path / "a.pt", _extra_files={"one.txt": "text", "two": b"\0bytes"})
    found = {"one.txt": "", "two": "", "none": "x"}
    read = torch.jit.load(tmp_path / "a.pt", map_location="cpu", _extra_files=found)
    assert found == {"one.txt": b"text", "two": b"\0bytes", "none": "x"}
    assert torch.equal(read(torch.ones(2)), program(torch.ones(2)))
    with open(tmp_path / "a.pt", "rb") as file:
        assert torch.jit.load(file, map_location=torch.device("meta")).weight.device.type == "meta"
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(tmp_path / "missing.pt")
    with pytest.raises(ValueError, match="is a directory"):
        torch.jit.load(tmp_path)
    torch.save({"a": 1}, tmp_path / "b.pt")
    with pytest.raises(RuntimeError, match=r"constants\.pkl"):
        torch.jit.load(tmp_path / "b.pt")
    with pytest.raises(RuntimeError):
        torch.jit.load(io.BytesIO(b"no archive"))
    with pytest.raises(NotImplementedError, match="mobile format"):
        program._save_for_lite_interpreter("x")


def test_functions_are_written_as_modules() -> None:
    function = torch.jit.trace(lambda x: x * 2 + 1, torch.ones(2))
    read = torch.jit.load(io.BytesIO(function.save_to_buffer()))
    assert read(torch.ones(3)).tolist() == [3, 3, 3]


def test_a_loaded_program_may_be_traced_frozen_and_compiled() -> None:
    program, expected = loaded(str(HERE / "archives" / "scripted_mlp.pt"))
    x = torch.tensor(expected["inputs"][0])
    for made in (torch.compile(program), torch.jit.freeze(program.eval()), torch.jit.trace(lambda y: y + 0, x)):
        assert made(x).shape[0] == 1
    assert close(plain(torch.jit.freeze(program)(x)), expected["outputs"])


# ---------------------------------------------------------------- to PyTorch and back


class Color(Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: Tensor
    n: int


class Everything(nn.Module):
    """A program with what an archive can hold."""

    table: Dict[str, List[int]]  # noqa: UP006
    extra: Optional[Tensor]  # noqa: UP045
    pairs: List[Tuple[int, Optional[Tensor]]]  # noqa: UP006, UP045

    def __init__(self) -> None:
        super().__init__()
        self.table, self.extra, self.color = {"a": [1, 2], "b": []}, None, Color.BLUE
        self.pairs = [(1, None), (2**40, torch.ones(2))]
        self.parts, self.name, self.number, self.z = [torch.ones(2), torch.zeros(3)], "naïve 'quoted'\n", 1e-5, 1 + 2j
        self.device, self.flags = torch.device("cpu"), [True, False]
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.register_buffer("wide", torch.arange(6.0).reshape(2, 3).t())
        self.register_buffer("small", torch.ones(2, dtype=torch.bfloat16))

    def forward(self, x: Tensor, n: int = 3) -> Tuple[Tensor, Point, Dict[str, Tensor]]:  # noqa: UP006
        found: Dict[str, Tensor] = {}  # noqa: UP006
        for layer in self.layers:
            x = torch.relu(layer(x))
        for key, values in self.table.items():
            total = x * len(values)
            for value in values:
                total = total + value
            found[key] = total
        i = 0
        while i < n:
            if self.color == Color.BLUE:
                x = x + self.parts[0] * i
            i += 1
        extra = self.extra
        if extra is not None:
            x = x + extra
        return x + self.wide[0, 0], Point(x, n), found


def _programs(quick: bool) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    spec = importlib.util.spec_from_file_location("models_of_traces", HERE / "traces" / "models.py")
    assert spec is not None and spec.loader is not None
    zoo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(zoo)
    made: dict[str, tuple[Any, tuple[Any, ...]]] = {"everything": (torch.jit.script(Everything()), (torch.ones(2), 4))}
    for name, module, inputs in itertools.islice(zoo.models(torch), 0, None, 2 if quick else 1):
        made[name] = torch.jit.trace(module.eval(), inputs, check_trace=False, strict=False), inputs
    for name, module, inputs in (
        ("script mlp", nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(), nn.Linear(3, 2)), (torch.ones(1, 4),)),
        ("script conv", nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()), (torch.ones(1, 1, 6, 6),)),
        ("script embedding", nn.Sequential(nn.Embedding(4, 3), nn.Tanh()), (torch.tensor([1, 2]),)),
        ("script norm", nn.Sequential(nn.LayerNorm(4), nn.GELU(), nn.Softmax(-1)), (torch.ones(1, 4),)),
    ):  # fmt: skip
        made[name] = torch.jit.script(module.eval()), inputs
        made["frozen " + name] = torch.jit.freeze(torch.jit.script(module.eval())), inputs
    return made


_READER = """
import json, sys, torch
def plain(x):
    if isinstance(x, torch.Tensor): return x.tolist()
    if isinstance(x, (list, tuple)): return [plain(i) for i in x]
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x
for path in sys.argv[1:]:
    extra = {"expected.json": ""}
    program = torch.jit.load(path, _extra_files=extra)
    inputs = torch.load(path + ".inputs")
    made = program(*inputs)
    torch.jit.save(program, path + ".back")
    print(json.dumps(plain(made)))
"""


def test_pytorch_runs_what_is_written_here_and_its_files_come_back(torch_python: str, tmp_path: Path) -> None:
    programs = _programs(quick="ALL_ARCHIVES" not in os.environ)
    paths = []
    for number, (program, inputs) in enumerate(programs.values()):
        paths.append(str(tmp_path / f"{number}.pt"))
        torch.jit.save(program, paths[-1], _extra_files={"expected.json": "{}"})
        torch.save(inputs, paths[-1] + ".inputs")
    run = subprocess.run(
        [torch_python, "-W", "ignore", "-c", _READER, *paths], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    for (name, (program, inputs)), path, line in zip(programs.items(), paths, run.stdout.splitlines(), strict=True):
        expected = plain(program(*inputs))
        assert close(expected, json.loads(line)), name
        assert close(plain(torch.jit.load(path + ".back")(*inputs)), expected), name


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
