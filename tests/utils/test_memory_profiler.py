"""torch.profiler._memory_profiler: what data goes where, what memory is for, and when it is taken and given back."""

from __future__ import annotations

import functools
import gc
import gzip
import json

import pytest

import flambeau as torch
from flambeau.profiler import _memory_profiler as memory

profile = functools.partial(torch.profiler.profile, record_shapes=True, profile_memory=True, with_stack=True)
Category = memory.Category


def flow(function) -> list[str]:
    with profile() as prof:
        function()
        gc.collect()
    lines = []
    for node in prof._memory_profile()._data_flow_graph.flow_nodes:
        gone = {key for key, edge in node._edges.items() if edge.is_deletion}
        read = [f"{key.id}v{version}{'*' * (key in gone)}" for key, (_, version) in node.inputs.items()]
        made = [f"{key.id}v{version}" for key, version in node.outputs.items()]
        if read or made:
            lines.append(f"{node._event.name.removeprefix('torch::autograd::')} {' '.join(read)} -> {' '.join(made)}".strip())
    return lines


def test_versions_of_memory() -> None:
    x, w = torch.ones(25), torch.ones(25)

    def program() -> None:
        y = x.mul(w).relu()
        y.view(5, 5).add_(1)
        y.sin()

    assert flow(program) == [
        "aten::mul 0v0 1v0 -> 2v0", "aten::relu 2v0 -> 3v0", "[memory] 2v0* ->", "aten::view 3v0 ->", "[memory]  -> 4v0",
        "aten::add_ 3v0 4v0 -> 3v1", "[memory] 4v0* ->", "aten::sin 3v1 ->", "[memory] 3v1* ->",
    ]  # fmt: skip


def test_versions_of_memory_in_backward_passes() -> None:
    x = torch.ones(3)
    w = torch.ones(3, requires_grad=True)
    lines = flow(lambda: (x * w).sin().sum().backward())
    assert lines[:2] == ["aten::mul 0v0 1v0 -> 2v0", "aten::sin 2v0 -> 3v0"]
    (leaf,) = [line for line in lines if line.startswith("AccumulateGrad")]
    (made,) = [line for line in lines if line.startswith("MulBackward0")]
    assert made.startswith("MulBackward0 0v0 ") and leaf.split()[1] == made.split()[-1]
    lines = flow(lambda: (x * w).sin().sum().backward())  # the leaf has a gradient now, which is written to
    (leaf,) = [line for line in lines if line.startswith("AccumulateGrad")]
    assert leaf.endswith("v1")


def test_schemas_of_what_was_recorded() -> None:
    x = torch.ones(2, 2)
    with profile() as prof:
        torch.nn.functional.relu(torch.cat([x, x], dim=0), inplace=False).mul_(2)
        torch.nn.functional.cross_entropy(x, torch.tensor([0, 1]), reduction="sum")
        with torch.profiler.record_function("some::stretch"):
            pass
    found = {}
    for event in memory.OpTree(prof.profiler.kineto_results).sorted_nodes:
        if event.tag.name == "TorchOp":
            matcher = memory.SchemaMatcher
            names = [schema.overload_name for schema in matcher.match_schemas(event.extra_fields)]
            found[event.name] = names, matcher.inputs_are_mutable(event.extra_fields)
    assert found["aten::cat"] == ([""], (False, False)) and found["aten::relu"] == ([""], (False,))
    assert found["aten::mul_"] == (["Tensor"], (True, False))
    assert found["aten::cross_entropy_loss"] == ([""], (False,) * 6)
    assert found["some::stretch"] == ([], ()) and memory.SchemaMatcher.lookup_schemas("a stretch") is None


def categories(prof, tensor: torch.Tensor) -> set:
    snapshot = prof._memory_profile()._category_snapshot()
    address = tensor.untyped_storage().data_ptr()
    numbers = [key.storage.allocation_id for key, _ in snapshot if key.storage.ptr == address]  # the last one is alive
    return {category for (key, _), category in snapshot.items() if key.storage.allocation_id == max(numbers)}


def test_what_memory_is_for() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = torch.ones(4, 2), torch.rand(4, 1)
    for _ in range(2):  # the gradients are made in the first round, and are there in the second
        with profile() as prof:
            x = torch.ones(4, 2)
            hidden = model[1](model[0](x))
            loss = torch.nn.functional.mse_loss(model[2](hidden), torch.zeros(4, 1))
            loss = loss + torch.nn.functional.mse_loss(model(before[0]), before[1])
            loss.backward()
            sgd.step()
        for p in model.parameters():
            assert categories(prof, p) == {Category.PARAMETER} and categories(prof, p.grad) == {Category.GRADIENT}
            assert categories(prof, sgd.state[p]["momentum_buffer"]) <= {Category.OPTIMIZER_STATE, None}
        assert categories(prof, x) == categories(prof, before[0]) == categories(prof, before[1]) == {Category.INPUT}
        assert categories(prof, hidden) == {Category.ACTIVATION}
    found = set(prof._memory_profile()._category_snapshot().values())
    assert {Category.AUTOGRAD_DETAIL, Category.OPTIMIZER_STATE} <= found
    with profile() as prof:  # a graph without gradients says nothing of what is an input
        y = torch.ones(2, 2)
        y * torch.ones(1)
    assert categories(prof, y) == {None}


def test_parameters_are_found_by_what_data_goes_where() -> None:
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    with profile() as prof:
        for _ in range(2):
            (x * w).sum().backward()
            with torch.no_grad():
                w.add_(w.grad, alpha=-0.1)
    assert categories(prof, w) == {Category.PARAMETER} and categories(prof, x) == {Category.INPUT}


def test_timelines(tmp_path) -> None:
    x = torch.ones(16)
    with profile() as prof:
        y = x * x
        y.sin_()
        del y
        z = torch.empty(64)
        del z
    found = [(action.name, size) for _, action, _, size in prof._memory_profile().timeline]
    assert found == [
        ("PREEXISTING", 64), ("CREATE", 64), ("INCREMENT_VERSION", 64), ("DESTROY", 64), ("CREATE", 256), ("DESTROY", 256)
    ]  # fmt: skip
    times = [time for time, *_ in prof._memory_profile().timeline]
    assert times[0] == -1 and times == sorted(times) and min(times[1:]) > 0
    prof.export_memory_timeline(str(tmp_path / "timeline.json"))
    times, sizes = json.loads((tmp_path / "timeline.json").read_text())
    assert len(times) == len(sizes) == 5 and {len(each) for each in sizes} == {9}
    assert [sum(each) for each in sizes] == [64, 128, 64, 320, 64]
    prof.export_memory_timeline(str(tmp_path / "timeline.raw.json.gz"), "cpu")
    raw = json.loads(gzip.decompress((tmp_path / "timeline.raw.json.gz").read_bytes()))
    assert raw[0] == [-1, 1, 64, 7] and [each[2] for each in raw] == [64, 64, -64, 256, -256]
    with pytest.raises(NotImplementedError, match="HTML is not implemented"):
        prof.export_memory_timeline(str(tmp_path / "timeline.html"))


def test_what_it_needs() -> None:
    with torch.profiler.profile() as prof:
        pass
    with pytest.raises(ValueError, match="record_shapes=True, profile_memory=True, with_stack=True required for memory"):
        prof._memory_profile()
    with torch.profiler.profile(record_shapes=True, with_stack=True) as prof:
        pass
    with pytest.raises(ValueError, match=r"^profile_memory=True required for memory profiling\.$"):
        prof._memory_profile()
