"""Plain pickles, made by the standard library alone: what PyTorch wrote is read, and what is written PyTorch reads.

Under the redirection, that is, where objects bear PyTorch's names; so in processes of their own.
"""

from __future__ import annotations

import copy
import pickle
import pickletools
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import flambeau as torch

HERE = Path(__file__).parent
RECORDED = HERE / "files" / "plain_pytorch_2_13.pkl"
Run = Callable[..., subprocess.CompletedProcess[str]]

#: Names that PyTorch gives to what it compiles from C++, where ours are Python's.
NATIVE = {
    "__builtin__ getattr", "torch._C _VariableFunctionsClass", "torch._C._nn gelu", "torch.functional einsum",
    "torch.serialization _get_layout",
}  # fmt: skip
OURS = {"torch.nn.functional gelu", "torch sigmoid", "torch add", "torch einsum", "torch strided"}

READ = """
import pickle, sys, torch, torch.nn.functional as F
found = pickle.load(open(sys.argv[1], "rb"))
t = found["tensor"]
assert type(t) is torch.Tensor and t.tolist() == [[0, 3], [1, 4], [2, 5]] and t.stride() == (1, 3)
assert found["half"].dtype is torch.bfloat16 and found["half"].tolist() == [1.5, -2]
assert found["grad"].requires_grad and found["grad"].dtype is torch.float64 and found["grad"].is_leaf
assert found["meta"].is_meta and found["meta"].shape == (2, 3)
p = found["parameter"]
assert type(p) is torch.nn.Parameter and not p.requires_grad and p.tolist() == [1, 2]
m = found["module"]
assert [type(part) for part in m] == [torch.nn.Linear, torch.nn.BatchNorm1d, torch.nn.MultiheadAttention]
print([round(x, 5) for x in m[:2](torch.tensor([[1.0, 2.0], [3.0, 5.0]]))[:, 0].tolist()])
print([round(x, 5) for x in m[0].weight.flatten().tolist()])
assert found["optimizer"].param_groups[0]["momentum"] == 0.9 and found["scheduler"].step_size == 2
print([round(x, 5) for x in torch.rand(3, generator=found["generator"]).tolist()], found["generator"].initial_seed())
assert found["dtype"] is torch.int16 and found["device"] == torch.device("cpu") and found["layout"] is torch.strided
assert type(found["size"]) is torch.Size and found["size"] == (2, 3)
assert type(found["result"]) is torch.return_types.max and found["result"].indices.item() == 1
assert found["distribution"].scale.item() == 2 and type(found["transform"]) is torch.distributions.ExpTransform
assert found["dataset"][1][0].item() == 1
assert found["functions"] == [F.relu, F.gelu, torch.sigmoid, torch.add, torch.einsum, torch.nn.init.xavier_uniform_]
assert found["classes"] == [torch.Tensor, torch.nn.Linear, torch.no_grad, torch.autograd.Function, torch.FloatTensor]
assert [type(e) for e in found["errors"]] == [torch.OutOfMemoryError, torch.linalg.LinAlgError]
"""
SHOWN = """\
[-0.99998, 0.99998]
[-0.00529, 0.37932, -0.58198, -0.52039]
[0.81993, 0.9201, 0.11665] 5
"""


def names_in(content: bytes) -> set[str]:
    return {argument for opcode, argument, _ in pickletools.genops(content) if opcode.name == "GLOBAL"}


def test_what_pytorch_wrote(run_python: Run) -> None:
    answer = run_python("-m", "flambeau_torch", "run", "-c", READ, RECORDED)
    assert (answer.stdout, answer.stderr) == (SHOWN, "")


def test_what_is_written_has_pytorchs_names(run_python: Run, tmp_path: Path) -> None:
    answer = run_python("-m", "flambeau_torch", "run", HERE / "make_plain.py", written := tmp_path / "ours.pkl")
    assert answer.returncode == 0, answer.stderr
    assert names_in(written.read_bytes()) - OURS == names_in(RECORDED.read_bytes()) - NATIVE
    answer = run_python("-m", "flambeau_torch", "run", "-c", READ, written)
    assert (answer.stdout, answer.stderr) == (SHOWN, "")


def test_a_pytorch_at_hand_reads_it(run_python: Run, torch_python: str, tmp_path: Path) -> None:
    run_python("-m", "flambeau_torch", "run", HERE / "make_plain.py", written := tmp_path / "ours.pkl")
    answer = subprocess.run([torch_python, "-c", READ, str(written)], capture_output=True, text=True)
    assert answer.stdout == SHOWN, answer.stderr


def test_under_its_own_name_flambeau_writes_its_own_names() -> None:
    content = pickle.dumps([torch.ones(2), torch.nn.Linear(1, 1), torch.float32], protocol=2)
    foreign = {name for name in names_in(content) if not name.startswith(("flambeau", "collections", "__builtin__", "_codecs"))}
    assert not foreign
    tensor, linear, dtype = pickle.loads(content)
    assert tensor.tolist() == [1, 1] and type(linear) is torch.nn.Linear and dtype is torch.float32


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint64, torch.complex64, torch.bool], ids=str)
def test_every_dtype_comes_back(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 1]).to(dtype)
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype is dtype and again.view(torch.uint8).tolist() == x.view(torch.uint8).tolist()


def test_storages_come_back_and_are_shared() -> None:
    x = torch.arange(4, dtype=torch.uint8)
    storage, again, view = pickle.loads(pickle.dumps([x.untyped_storage(), x, x[1:]]))
    assert type(storage) is torch.UntypedStorage and storage.tolist() == [0, 1, 2, 3]
    again[1] = 7
    assert view.tolist() == [7, 2, 3]


def test_generators_go_on() -> None:
    generator = torch.Generator().manual_seed(3)
    torch.randn(3, generator=generator)
    copies = [pickle.loads(pickle.dumps(generator)), copy.deepcopy(generator), copy.copy(generator)]
    expected = torch.randn(5, generator=generator).tolist()
    assert all(torch.randn(5, generator=each).tolist() == expected for each in copies)
