"""What the pages say is so: their figures are those of the data, names that are said to be there are, and others are not."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(scope="module")
def coverage(root):
    spec = importlib.util.spec_from_file_location("make_coverage", root / "tools" / "make_coverage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_as_they_would_be_written(run_python, root) -> None:
    answer = run_python("-W", "ignore", root / "tools" / "make_coverage.py", "--check")
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_names_are_where_they_are_said_to_be(coverage) -> None:
    page = (
        "`torch.nn.Linear(3, 4)` and `torch.no_such_name`\n"
        + coverage.MISSING
        + "- **a**: `torch.relu`, `torch.package.none`, `torch.import_ir_module`\n\n## More\n\n`torch.cudnn_batch_norm`\n"
    )
    assert list(coverage.wrong_names(page)) == [
        "torch.cudnn_batch_norm is said to be there, and isn't",
        "torch.no_such_name is said to be there, and isn't",
        "torch.relu is said not to be there, and is",
    ]


def test_a_region_is_replaced(coverage) -> None:
    page = "a\n<!-- x:start -->\nold\n<!-- x:end -->\nb\n"
    assert coverage.with_region(page, "x", "new\n") == "a\n<!-- x:start -->\nnew\n<!-- x:end -->\nb\n"
    with pytest.raises(SystemExit, match="no region y"):
        coverage.with_region(page, "y", "new\n")


def test_a_conformance_run_is_taken_over(coverage) -> None:
    operators = {"ops": 3, "forward_pass": 2, "backward_ops": 2, "backward_pass": 2, "dtypes": {"int64": {"ops": [1, 2]}}}
    run = {
        "impl": "flambeau",
        "import_error": None,
        "summary": {"core": operators},
        "surface": {"spaces": {"torch": [4, 5]}},
        "results": [{"suite": "core", "name": "add", "status": "fail"}, {"suite": "core", "name": "mul", "status": "pass"}],
    }
    table = coverage.table(coverage.taken(run))
    assert "| operators of ordinary programs | 2 of 3 | 2 of 2 | `add` |" in table
    assert "| public names | 4 of 5 | | |" in table and "int64 1 of 2." in table
    with pytest.raises(SystemExit, match="no run of flambeau"):
        coverage.taken({**run, "impl": "torch"})
