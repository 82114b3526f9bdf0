"""Which operators' kernels a change has changed: digests of the LLVM texts behind a fixed list of calls.

    python tools/kernel_digests.py record FILE [--checkout PATH] [--only REGEX]
    python tools/kernel_digests.py compare FILE [--checkout PATH] [--only REGEX]

    git worktree add /tmp/before main
    python tools/kernel_digests.py record before.json --checkout /tmp/before
    python tools/kernel_digests.py compare before.json

`record` writes down, for every call and its gradient, the digest of each kernel's text and the phases of each plan;
`compare` makes the same calls again, prints what is different, and ends with 1 if something is. A change that is meant
to move code and not to change it proves so by an empty comparison. Both runs have to be on one machine: texts depend on the
processor's vectors, phases on the number of threads. A kernel that is not in the disk cache is compiled.

Each call runs in a child process of its own, so that all kernels it needs are seen, not only those that no call before it
needed. Stands on the table of compiled texts (codegen.jit) and on `launch.callable_of`, through which every plan is made; the
inputs are those of tests/conformance.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CALLS = ROOT / "tools" / "kernel_calls.txt"
Facts = dict[str, Any]  # of a call: its kernels' digests and its plans' phases, forward and backward, or an error
THREADS = 2


def calls(only: str = "") -> list[str]:
    """The calls of the list, in which `{a|b}` stands for a line with each of these words."""
    catalogue = importlib.import_module("conformance.catalogue")
    lines = [line for line in CALLS.read_text().splitlines() if line and not line.startswith("#")]
    return [each for line in lines for each in catalogue.written_out(line) if re.search(only, each)]


class Watch:
    """The kernels and plans that calls make, from now on."""

    def __init__(self) -> None:
        self.jit, self.launch = (importlib.import_module(f"flambeau.codegen.{name}") for name in ("jit", "runtime.launch"))
        self.plans: list[list[list[int]]] = []
        self._callable_of = self.launch.callable_of
        self.launch.callable_of = self._watched

    def _watched(self, plan: Any, phases: Any, *args: Any, **named: Any) -> Callable:
        self.plans.append([[int(phase.total), int(phase.grain), len(phase.constants)] for phase in phases])
        return self._callable_of(plan, phases, *args, **named)

    def of(self, call: Callable[[], Any]) -> tuple[Any, Facts]:
        """What a call gives, and its kernels and plans."""
        before, self.plans = self.jit.loaded(), []
        value = call()
        return value, {"kernels": sorted(map(digest, self.jit.loaded_since(before))), "plans": self.plans}


def digest(kernel: Any) -> str:
    """The digest of a kernel's text, its name aside."""
    return hashlib.sha256(kernel.unnamed().encode()).hexdigest()[:16]


def facts_of(watch: Watch, line: str) -> dict[str, Facts]:
    """The facts of one call: forward, and backward if it has a gradient."""
    torch: Any = importlib.import_module("flambeau")
    inputs = importlib.import_module("conformance.inputs").Inputs(torch, line, grad=True)
    inputs.space["step"] = lambda kind, **options: step(torch, inputs, kind, **options)
    if line.startswith("step("):
        (call,), _ = inputs.arguments(f"lambda: {line}")
        return {"forward": watch.of(call)[1]}
    path, _, arguments = line.partition("(")
    args, named = inputs.arguments(arguments[:-1])
    function = torch
    for part in path.removeprefix("torch.").split("."):
        function = getattr(function, part)
    made, forward = watch.of(lambda: function(*args, **named))
    return {"forward": forward, **backward(torch, watch, inputs, made)}


def backward(torch: Any, watch: Watch, inputs: Any, made: Any) -> dict[str, Facts]:
    """The facts of a result's gradient, if it has one."""
    outputs = [x for x in (made if isinstance(made, (tuple, list)) else [made]) if getattr(x, "requires_grad", False)]
    if not outputs:
        return {}
    weights = importlib.import_module("conformance.inputs").weights
    cotangents = [torch.from_numpy(weights(tuple(x.shape), 1)).to(x.dtype) for x in outputs]
    operands = [inputs.made[number] for number in inputs.numbers]
    return {"backward": watch.of(lambda: torch.autograd.grad(outputs, operands, cotangents, allow_unused=True))[1]}


def step(torch: Any, inputs: Any, kind: str, **options: Any) -> None:
    """An optimizer's step on two parameters."""
    parameters = [torch.nn.Parameter(inputs.f(20, 30).detach()), torch.nn.Parameter(inputs.f(7).detach())]
    for parameter in parameters:
        parameter.grad = inputs.f(*parameter.shape).detach()
    getattr(torch.optim, kind)(parameters, **options).step()


def facts(lines: list[str]) -> Iterator[tuple[str, dict[str, Facts]]]:
    """The facts of calls, each found in a child process."""
    torch: Any = importlib.import_module("flambeau")
    torch.set_num_threads(THREADS)
    watch = Watch()
    torch.empty(1, dtype=torch.int16).fill_(3)  # the runtime's own texts are no call's
    for line in lines:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            try:
                found = facts_of(watch, line)
            except Exception as error:  # a call that fails is a fact about it
                found = {"error": {"kernels": [], "plans": [], "words": f"{type(error).__name__}: {error}"}}
            with open(writing, "w") as file:
                json.dump(found, file)
            os._exit(0)
        os.close(writing)
        with open(reading) as file:
            text = file.read()
        status = os.waitpid(child, 0)[1]
        yield line, json.loads(text) if not status else {"error": {"kernels": [], "plans": [], "words": f"status {status}"}}


def changes(before: dict[str, Facts], after: dict[str, Facts]) -> Iterator[str]:
    """What is different between the facts of one call, in words."""
    for part in dict.fromkeys((*before, *after)):
        if part not in before or part not in after:
            yield f"{part}: only {'after' if part in after else 'before'}{words(before, after, part)}"
            continue
        old, new = before[part], after[part]
        gone, come = set(old["kernels"]) - set(new["kernels"]), set(new["kernels"]) - set(old["kernels"])
        if gone or come or len(old["kernels"]) != len(new["kernels"]):
            yield (
                f"{part}: {len(gone)} of {len(old['kernels'])} kernels are no longer made, {len(come)} of "
                f"{len(new['kernels'])} are new"
            )
        if old["plans"] != new["plans"]:
            counts = [[len(plan) for plan in one["plans"]] for one in (old, new)]
            yield (
                f"{part}: plans of {counts[0]} phases, now {counts[1]}"
                if counts[0] != counts[1]
                else f"{part}: other totals, grains or numbers of constants in plans of {counts[0]} phases"
            )
        if old.get("words") != new.get("words"):
            yield f"{part}: {old.get('words')}, now {new.get('words')}"


def words(before: dict[str, Facts], after: dict[str, Facts], part: str) -> str:
    """The error that is only there in one of two runs."""
    found = (before | after)[part].get("words")
    return f" ({found})" if found else ""


def processor() -> str:
    """What texts depend on besides the sources."""
    return importlib.import_module("flambeau.codegen.cpu").description()


def main() -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(description="digests of kernels")
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose flambeau is looked at")
    parser.add_argument("--only", default="", help="calls whose line matches")
    given = parser.parse_args()
    sys.path[:0] = [str(given.checkout.resolve()), str(ROOT / "tests")]
    lines = calls(given.only)
    if given.command == "record":
        found = dict(facts(lines))
        given.file.write_text(json.dumps({"processor": processor(), "calls": found}) + "\n")
        failed = [line for line, parts in found.items() if "error" in parts]
        print(f"{len(found)} calls, {sum(len(p['kernels']) for parts in found.values() for p in parts.values())} kernels")
        print(*(f"failed: {line}: {found[line]['error']['words']}" for line in failed), sep="\n")
        return int(bool(failed))
    recorded = json.loads(given.file.read_text())
    if recorded["processor"] != processor():
        parser.error("the file was recorded on another processor, for which kernels are written otherwise")
    changed = 0
    for line, found in facts([line for line in lines if line in recorded["calls"]]):
        different = list(changes(recorded["calls"][line], found))
        changed += bool(different)
        for change in different:
            print(f"{line}\n    {change}", flush=True)
    print(f"{changed} calls changed")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
