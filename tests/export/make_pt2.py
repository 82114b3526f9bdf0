"""Writes the .pt2 files of tests/export/files, by a Python that has PyTorch 2.13. Each holds its results as expected.json."""

import copy
import io
import json
import linecache
import pathlib

import torch

FILES = pathlib.Path(__file__).parent / "files"
SOURCE = '''
class Program(torch.nn.Module):
    """Shared weights, a buffer that is written, containers, a keyword, several results of which not all are used."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.same = self.inner
        self.register_buffer("steps", torch.zeros(2), persistent=False)

    def forward(self, d, *, scale):
        self.steps.add_(1)
        low, _, high = self.same(self.inner(d["x"])).unbind(1)
        return {"low": low * scale, "steps": [self.steps + high, None, 7]}


class Weights(torch.nn.Module):
    """Parameters and buffers of many types, some of which are views of one memory."""

    def __init__(self):
        super().__init__()
        whole = torch.arange(6.0)
        self.turned = torch.nn.Parameter(torch.arange(6.0).view(2, 3).t())
        self.short = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16), requires_grad=False)
        for name, value in {"whole": whole, "part": whole[2:5], "wave": torch.tensor([1 + 2j]), "empty": torch.zeros(0, 3),
                            "flags": torch.tensor([True, False]), "bytes": torch.tensor([3, 255], dtype=torch.uint8)}.items():
            self.register_buffer(name, value)

    def forward(self, x):
        made = self.turned @ x, self.part + self.whole[:3], self.wave * 2, self.short.float()
        return *made, self.flags, self.bytes + 1, self.empty


class Branches(torch.nn.Module):
    """Graphs within the graph: a condition, and calls without gradients."""

    def forward(self, x):
        with torch.no_grad():
            y = x * 2
        return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)) + y


class Sizes(torch.nn.Module):
    """Sizes that are dynamic, computed from others, and known only by a run."""

    def forward(self, x, y):
        count = y.sum().item()
        torch._check(count >= 0)
        torch._check(count < x.shape[0] * 10)
        return x.repeat(2)[: y.shape[0] - 1], x.shape[0] * 3, torch.zeros(count) + 1, x.nonzero(), 2.0 * count
'''  # fmt: skip


def plain(value):
    """A result as JSON has it."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.view_as_real(value).tolist() if value.is_complex() else value.tolist()


def main():
    """Write the files."""
    torch.manual_seed(0)
    scope = {"torch": torch, "__name__": "models"}
    linecache.cache["models.py"] = len(SOURCE), None, SOURCE.splitlines(True), "models.py"
    exec(compile(SOURCE, "models.py", "exec"), scope)
    programs = {
        "program": torch.export.export(scope["Program"](), ({"x": torch.rand(2, 3)},), {"scale": torch.tensor(2.0)}),
        "weights": torch.export.export(scope["Weights"](), (torch.ones(2, 1),)),
        "branches": torch.export.export(scope["Branches"](), (torch.tensor([1.0, 2.0]),)),
    }
    rows = torch.export.Dim("rows", min=3)
    given = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([0, 1, 1, 0, 1, 0])
    programs["sizes"] = torch.export.export(scope["Sizes"](), given, dynamic_shapes=({0: rows}, {0: 2 * rows}))
    programs["functional"] = programs["program"].run_decompositions({})
    for name, program in programs.items():
        for node in program.graph.nodes:
            if "stack_trace" in node.meta:
                node.meta["stack_trace"] = node.meta["stack_trace"].replace(str(pathlib.Path(torch.__file__).parent), "torch")
        args, kwargs = program.example_inputs
        made = torch.utils._pytree.tree_leaves(copy.deepcopy(program).module()(*args, **kwargs))
        file = io.BytesIO()
        torch.export.save(program, file)
        again = torch.export.load(file)
        text = json.dumps({"results": list(map(plain, made)), "printed": str(again), "code": again.module().code})
        torch.export.save(program, FILES / f"{name}.pt2", extra_files={"expected.json": text})


if __name__ == "__main__":
    main()
