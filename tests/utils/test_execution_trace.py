"""torch.profiler.ExecutionTraceObserver: the nodes of its files."""

from __future__ import annotations

import gzip
import json

import flambeau as torch
from flambeau.profiler import ExecutionTraceObserver, profile, record_function


def nodes(path) -> list[dict]:
    return json.loads(path.read_text())["nodes"]


def attribute(node: dict, name: str):
    return next(a["value"] for a in node["attrs"] if a["name"] == name)


def test_calls_with_what_they_are_given_and_give(tmp_path) -> None:
    path = tmp_path / "trace.json"
    observer = ExecutionTraceObserver()
    assert not observer.is_registered and observer.get_output_file_path() is None
    observer.start()  # nothing happens without a file
    assert not observer.is_running()
    assert observer.register_callback(str(path)) is observer and observer.is_registered
    x = torch.ones(2, 2, requires_grad=True)
    torch.sin(x)
    observer.start()
    with record_function("block", "1, 2"):
        handle = torch.autograd._record_function_with_args_enter("given", 1, False, [x, x], "text", float("inf"), None)
        y = torch.add(x, x)
        torch.autograd._record_function_with_args_exit(handle)
    y.sum().backward()
    observer.stop()
    torch.cos(x)
    observer.unregister_callback()
    assert observer.get_output_file_path() == str(path) and not observer.is_registered
    found = {node["name"]: node for node in reversed(nodes(path))}  # the first of each name
    assert not {"aten::sin", "aten::cos"} & set(found)
    process, thread = (found[f"[pytorch|profiler|execution_trace|{name}]"] for name in ("process", "thread"))
    assert (process["id"], thread["id"], thread["ctrl_deps"]) == (1, 2, 1)
    block, given, add = found["block"], found["given"], found["aten::add"]
    assert block["ctrl_deps"] == 2 and block["inputs"]["values"] == ["1, 2"] and block["inputs"]["types"] == ["String"]
    assert given["ctrl_deps"] == block["id"] and add["ctrl_deps"] == given["id"]
    tensor = add["inputs"]["values"][0]
    assert tensor[2:] == [0, 4, 4, "cpu"] and add["inputs"]["values"] == [tensor, tensor, 1]
    assert given["inputs"]["values"] == [1, False, [tensor, tensor], "text", "inf", "<None>"]
    assert given["inputs"]["types"] == [
        "Int", "Bool", "GenericList[Tensor(float),Tensor(float)]", "String", "Double", "None"
    ]  # fmt: skip
    assert add["inputs"]["shapes"] == [[2, 2], [2, 2], []] and add["inputs"]["strides"] == [[2, 1], [2, 1], []]
    assert add["outputs"]["values"] == [found["aten::sum"]["inputs"]["values"][0]] and add["outputs"]["shapes"] == [[2, 2]]
    assert attribute(add, "op_schema").startswith("aten::add.Tensor(Tensor self, Tensor other")
    node = found["SumBackward0"]
    assert attribute(node, "scope") == 1 and attribute(node, "fw_parent") == node["ctrl_deps"]
    assert attribute(node, "seq_id") == attribute(found["aten::sum"], "seq_id") == attribute(add, "seq_id") + 1
    numbers = [attribute(each, "rf_id") for each in found.values() if each["id"] > 2]
    assert len(set(numbers)) == len(numbers) and min(numbers) == 1


def test_started_again_and_compressed(tmp_path) -> None:
    path = tmp_path / "trace.json.gz"
    observer = ExecutionTraceObserver().register_callback(str(path))
    for round in range(5):
        if round in (1, 3):
            observer.start()
        with record_function(f"round {round}"):
            pass
        observer.stop()
    observer.cleanup()
    names = [node["name"] for node in json.loads(gzip.decompress(path.read_bytes()))["nodes"]]
    assert [name for name in names if name.startswith("round")] == ["round 1", "round 3"]


def test_with_a_profiler_calls_have_one_number_in_both_files(tmp_path) -> None:
    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "nodes.json"))
    with profile(schedule=plan, execution_trace_observer=observer) as prof:
        for number in range(6):
            with record_function(f"round {number}"):
                torch.ones(2).add(1)
            prof.step()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    found = nodes(tmp_path / "nodes.json")
    assert sum(node["name"].startswith("round") for node in found) == 2
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    traced = {e["args"]["Record function id"]: e["name"] for e in events if e.get("cat") in ("cpu_op", "user_annotation")}
    assert traced == {attribute(node, "rf_id"): node["name"] for node in found if node["id"] > 2}


def test_one_from_the_environment(tmp_path, monkeypatch) -> None:
    assert profile().execution_trace_observer is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_PATH", str(tmp_path))
    with profile() as prof:
        torch.ones(1)
    (path,) = tmp_path.iterdir()
    assert prof.execution_trace_observer.get_output_file_path() == str(path)
    assert "aten::ones" in [node["name"] for node in nodes(path)]


def test_a_profiler_around_another_sees_stretches() -> None:
    with profile() as outer, profile() as inner:
        with record_function("block"):
            torch.ones(1)
    for prof in (outer, inner):
        assert next(e.name for e in prof.events()) == "block"
