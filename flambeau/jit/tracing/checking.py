"""Whether a trace is to be trusted: it is run beside the function and beside a second trace, and graphs are compared.

Used by entry.
"""

from __future__ import annotations

import copy
import difflib
import re
import warnings
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.jit.ir.graph import Graph
from flambeau.jit.tracing.warnings import TracerWarning, TracingCheckError

__all__ = ["check", "cloned"]

_RANDOM = frozenset(
    """dropout alpha_dropout feature_dropout bernoulli bernoulli_ normal normal_ uniform_ rand randn rand_like
    randn_like randint randperm multinomial poisson rrelu exponential_ cauchy_ geometric_ random_ log_normal_""".split()
)


def cloned(inputs: Any) -> Any:
    """The inputs with copies of their tensors, of the parts that they use."""
    if isinstance(inputs, torch.Tensor):
        with torch.no_grad():
            made = inputs.detach().clone()
        return made.requires_grad_(inputs.requires_grad)
    if isinstance(inputs, dict):
        return {key: cloned(x) for key, x in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        items = [cloned(x) for x in inputs]
        return type(inputs)(*items) if hasattr(inputs, "_fields") else type(inputs)(items)
    return copy.copy(inputs)


def check(
    traced: Callable[..., Any],
    function: Callable[..., Any],
    again: Callable[..., Any],
    inputs: Any,
    tolerance: float,
    graphs: Callable[[], tuple[Graph, Graph]],
) -> None:
    """Compare a traced program with the function and with another trace of it, on copies of inputs.

    graphs(): of both traces, with calls written out. Outputs that differ are warned of; TracingCheckError if a program can't
    run, or if the traces aren't the same.
    """
    with torch.no_grad():
        checker = _Check(tolerance, graphs)
        made = checker.outputs(traced, inputs, "trace")
        expected = checker.outputs(function, inputs, "Python function")
        if checker.agree(made, expected, "Python function"):
            checker.agree(made, checker.outputs(again, inputs, "repeated trace"), "repeated trace")
        differences = checker.differences()
    if any(found is not None for found in differences):
        raise TracingCheckError(*differences)


class _Check:
    def __init__(self, tolerance: float, graphs: Callable[[], tuple[Graph, Graph]]) -> None:
        self.tolerance, self.graphs, self.told = tolerance, graphs, False

    def outputs(self, program: Callable[..., Any], inputs: Any, what: str) -> list[torch.Tensor]:
        """The tensors among the results."""
        try:
            made = program(**cloned(inputs)) if isinstance(inputs, dict) else program(*cloned(inputs))
        except Exception as error:
            words = f"encountered an exception while running the {what} with test inputs.\nException:\n{_indented(str(error))}"
            raise TracingCheckError(*self.differences(), extra_msg=words) from error
        results = made if isinstance(made, tuple) else (made,)
        return [x for x in results if isinstance(x, torch.Tensor)]

    def agree(self, found: list[torch.Tensor], expected: list[torch.Tensor], what: str) -> bool:
        """Whether results are the same; warns of those that aren't."""
        fine = True
        for number, (x, y) in enumerate(zip(found, expected), 1):
            wide = torch.complex128 if x.is_complex() or y.is_complex() else torch.float64
            closest = max(_absolute(x.dtype), _absolute(y.dtype))
            try:
                torch.testing.assert_close(x.to(wide), y.to(wide), rtol=self.tolerance, atol=closest, equal_nan=True)
            except AssertionError as error:
                self.warn_of_chance()
                warnings.warn(
                    f"Output nr {number}. of the traced function does not match the corresponding output of the {what}. Detailed "
                    f"error:\n{error}",
                    category=TracerWarning,
                    stacklevel=5,
                )
                fine = False
        return fine

    def warn_of_chance(self) -> None:
        """Warn once of operators that give something else each time."""
        if self.told:
            return
        self.told = True
        found = [node for node in self.graphs()[0].nodes() if node.kind().removeprefix("aten::") in _RANDOM]
        found = [node for node in found if "dropout" not in node.kind() or node.inputsAt(2).toIValue() is not False]
        if found:
            shown = "\n".join([_indented(str(node)) for node in found][:20])
            warnings.warn(
                "Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n"
                + shown
                + "\nThis may cause "
                "errors in trace checking. To disable trace checking, pass check_trace=False to torch.jit.trace()",
                category=TracerWarning,
                stacklevel=6,
            )

    def differences(self) -> tuple[str | None, str | None]:
        """What is different in the graphs of both traces, and in their constants."""
        first, second = self.graphs()
        texts = [re.sub(r"___torch_mangle_[0-9]+\.", "", _canonical(graph)) for graph in (first, second)]
        graph_error = None
        if texts[0] != texts[1]:
            graph_error = "Graph diff:\n" + _indented(_diff(*texts)) + "\n"
            for a, b in zip(texts[0].splitlines(), texts[1].splitlines()):
                if a != b:
                    graph_error += "First diverging operator:\nNode diff:\n" + _indented(_diff(a + "\n", b + "\n")) + "\n"
                    break
        return graph_error, _constants_differ(first, second)


def _absolute(kind: torch.dtype) -> float:
    return {torch.float16: 1e-5, torch.bfloat16: 1e-5, torch.float32: 1.3e-6, torch.float64: 1e-7}.get(kind, 1e-5)


def _constants_differ(first: Graph, second: Graph) -> str | None:
    for a, b in zip(first.nodes(), second.nodes()):
        if a.kind() != b.kind():
            return None
        if a.kind() != "prim::Constant" or any(not isinstance(n.ivalue(), torch.Tensor) for n in (a, b)):
            continue
        try:
            torch.testing.assert_close(a.ivalue(), b.ivalue(), equal_nan=True)
        except (RuntimeError, AssertionError) as error:
            where = f"Node:\n{_indented(str(a))}\nSource Location:\n{_indented(a.sourceRange())}\n"
            return f"{where}Comparison exception: {_indented(str(error))}"
    return None


def _canonical(graph: Graph) -> str:
    """The text of a graph with values numbered in order, and nothing said of shapes and places."""
    text = re.sub(r"(\w+)\([^()%]*device=\w+\)", "Tensor", graph.str(False))
    numbers: dict[str, str] = {}
    return re.sub(r"%([\w.]+)", lambda found: "%" + numbers.setdefault(found[1], str(len(numbers))), text)


def _diff(a: str, b: str) -> str:
    return "".join(difflib.ndiff(a.splitlines(True), b.splitlines(True)))


def _indented(text: str) -> str:
    return "\n".join("\t" + line for line in text.splitlines())
