"""torch.ops.torch_scatter: what loading torch_scatter's compiled libraries registers, with numbers of torch_scatter 2.1.2."""

from __future__ import annotations

from pathlib import Path

import pytest

import flambeau as torch

SRC = torch.tensor([[1.0, 5, 2, 5], [4, 3, 8, 1]])
INDEX = torch.tensor([[0, 0, 2, 0], [2, 2, 0, 2]])


@pytest.fixture(autouse=True)
def ops(tmp_path: Path):
    """A file where the package has one; it isn't read."""
    path = tmp_path / "torch_scatter" / "_scatter_cpu.so"
    path.parent.mkdir()
    path.touch()
    torch.ops.load_library(path)
    return torch.ops.torch_scatter


def test_groups_in_any_order(ops) -> None:
    assert ops.cuda_version() == -1
    assert str(ops.scatter_max.default._schema) == (
        "torch_scatter::scatter_max(Tensor _0, Tensor _1, int _2, Tensor? _3, int? _4) -> (Tensor _0, Tensor _1)"
    )
    assert ops.scatter_sum(SRC, INDEX, 1, None, None).tolist() == [[11, 0, 2], [8, 0, 8]]
    assert ops.scatter_mul(SRC, INDEX, -1, None, 4).tolist() == [[25, 1, 2, 1], [8, 1, 12, 1]]
    assert ops.scatter_mean(SRC.long(), INDEX, 1, None, None).tolist() == [[3, 0, 2], [8, 0, 2]]
    best, places = ops.scatter_max(SRC, INDEX, 1, None, None)
    assert best.tolist() == [[5, 0, 2], [8, 0, 4]] and places.tolist() == [[1, 4, 2], [2, 4, 0]]
    out = torch.tensor([[9.0, 9, 9], [9, 9, 1]])
    best, places = ops.scatter_min(SRC, INDEX, 1, out, None)
    assert best is out and out.tolist() == [[1, 9, 2], [8, 9, 1]] and places.tolist() == [[0, 4, 2], [2, 4, 4]]
    assert ops.scatter_sum(torch.zeros(0, 3), torch.zeros(0, 3).long(), 0, None, None).shape == (0, 3)


def test_a_gradient_goes_to_the_first_of_equal_elements(ops) -> None:
    x = SRC.clone().requires_grad_()
    (ops.scatter_max(x, INDEX, 1, None, None)[0] * torch.tensor([1.0, 10, 100])).sum().backward()
    assert x.grad.tolist() == [[0, 1, 100, 0], [100, 0, 1, 0]]


def test_sorted_groups(ops) -> None:
    index = torch.tensor([0, 0, 2, 2])
    assert ops.segment_sum_coo(SRC.t(), index, None, None).tolist() == [[6, 7], [0, 0], [7, 9]]
    assert ops.segment_mean_coo(torch.tensor([-1, -2, 3, 4]), index, None, 4).tolist() == [-1, 0, 3, 0]
    begins = torch.tensor([0, 2, 2, 4])
    assert ops.segment_sum_csr(SRC.t(), begins, None).tolist() == [[6, 7], [0, 0], [7, 9]]
    best, places = ops.segment_min_csr(SRC, torch.tensor([[0, 2, 2, 4], [0, 0, 1, 4]]), None)
    assert best.tolist() == [[1, 0, 2], [0, 4, 1]] and places.tolist() == [[0, 4, 2], [4, 0, 3]]
    values = torch.tensor([7.0, 8, 9], requires_grad=True)
    spread = ops.gather_csr(values, begins, None)
    spread.sum().backward()
    assert spread.tolist() == [7, 7, 9, 9] == ops.gather_coo(values.detach(), index, None).tolist()
    assert values.grad.tolist() == [2, 0, 2]


def test_the_package_is_built_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setuptools = pytest.importorskip("setuptools")
    from flambeau.utils.cpp_extension import BuildExtension, CppExtension

    monkeypatch.chdir(tmp_path)
    made = setuptools.Distribution(
        {
            "name": "torch_scatter",
            "ext_modules": [CppExtension("torch_scatter._scatter_cpu", ["scatter.cpp"])],
            "cmdclass": {"build_ext": BuildExtension.with_options(no_python_abi_suffix=True, use_ninja=False)},
        }
    )
    step = made.get_command_obj("build_ext")
    step.build_lib = str(tmp_path)
    step.ensure_finalized()
    step.run()
    torch.ops.load_library(tmp_path / "torch_scatter" / "_scatter_cpu.so")
    with pytest.raises(NotImplementedError, match=r"can't compile mine\.fast: flambeau has no C"):
        CppExtension("mine.fast", ["fast.cpp"])
