"""What draft_export has to say of an export: which values it took for granted, and which operators have no right fake.

`CaptureStructuredTrace` gathers what a trace tells of itself (base.symbolic.trace_events) as FailureReports; a DraftExportReport
is their list, and prints them. Used by `_draft_export`.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import linecache
import sys
from collections.abc import Iterator
from enum import IntEnum
from types import FrameType
from typing import Any, NoReturn

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.base.symbolic.expressions import Expr
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.base.symbolic.trace_events import reported_to
from flambeau.dispatcher.fake_profiles import OpProfile
from flambeau.fx.experimental.shape_env import user_frames

__all__ = ["CaptureStructuredTrace", "DraftExportReport", "FailureReport", "FailureType"]

_FAKES = (
    "Please refer to https://docs.google.com/document/d/1_W62p8WJOQQUzPsJYa7s701JXt0qf2OfLub2sbkHOaU/"
    "edit#heading=h.ahugy69p2jmz for more detailed instructions on how to write a {} implementation."
)
_CHECKS = (
    "Please refer to https://docs.google.com/document/d/1kZ_BbB3JnoLbUZleDT6635dHs88ZVYId8jT-yTFgf3A/"
    "edit#heading=h.boi2xurpqa0o for more details."
)


class FailureType(IntEnum):
    """What kept an export from being sound."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass
class FailureReport:
    """One thing that kept an export from being sound. data: the operator, or the expression and where the program asked."""

    failure_type: FailureType
    data: dict[str, Any]
    xfail: bool = False

    def __repr__(self) -> str:
        return f"FailureReport(failure_type={self.failure_type}, xfail={self.xfail}, data={self.data})"

    def print(self, str_to_filename: dict[int, str]) -> str:
        """The text of it. str_to_filename: the files of stacks by their numbers."""
        return {
            FailureType.MISSING_FAKE_KERNEL: self._missing,
            FailureType.MISMATCHED_FAKE_KERNEL: self._mismatched,
            FailureType.GUARD_ADDED: self._guarded,
            FailureType.DATA_DEPENDENT_ERROR: self._data_dependent,
        }[self.failure_type](str_to_filename)

    def _missing(self, files: dict[int, str]) -> str:
        return (
            f"Missing fake kernel.\n    torch.ops.{self.data['op']} is missing a fake kernel implementation.\n\n"
            f"    {_FAKES.format('meta')}\n"
        )

    def _mismatched(self, files: dict[int, str]) -> str:
        return (
            f"Mismatched fake kernel.\n    torch.ops.{self.data['op']} has a fake kernel implementation, but it has "
            f"incorrect behavior, based on the real kernel.\n    The reason for the mismatch is: {self.data['reason']}.\n\n"
            f"    {_FAKES.format('fake')}\n"
        )

    def _guarded(self, files: dict[int, str]) -> str:
        return (
            "Guard Added.\n"
            "    A guard was added during tracing, which might've resulted in some incorrect\n"
            "    tracing or constraint violation error.\n"
            f"    Specifically, this guard was added: {self.data['expr']}, where {self.data['symbol_to_sources']}.\n"
            f"    This occurred at the following stacktrace: {_stack(self.data['user_stack'], files)}:\n"
            f"        {_locals(self.data['frame_locals'])}\n"
            f"    And the following framework stacktrace: {_stack(self.data['stack'], files)}\n\n"
            "    Because of this, we have modified the dynamic shapes structure to be the\n"
            "    following. You can also use torch.export.Dim.AUTO instead to specify your\n"
            "    dynamic shapes, and we will automatically infer the dynamism for you.\n"
            f"    ```\n    dynamic_shapes = {self.data['new_dynamic_shapes']}\n    ```\n"
        )

    def _data_dependent(self, files: dict[int, str]) -> str:
        return (
            "Data dependent error.\n"
            f"    When exporting, we were unable to evaluate the value of `{self.data['expr']}`.\n"
            f"    This was encountered {self.data['occurrences']} times.\n"
            f"    This occurred at the following user stacktrace: {_stack(self.data['user_stack'], files)}\n"
            f"        {_locals(self.data['frame_locals'])}\n"
            f"    And the following framework stacktrace: {_stack(self.data['stack'], files)}\n\n"
            f"    As a result, it was specialized to a constant (e.g. `{self.data['result']}` in the 1st occurrence), and "
            "asserts were inserted into the graph.\n\n"
            "    Please add `torch._check(...)` to the original code to assert this data-dependent assumption.\n"
            f"    {_CHECKS}\n"
        )


def _stack(frames: list[dict[str, Any]], files: dict[int, str]) -> str:
    lines = "".join(f"\n        File {files.get(f['filename'], '?')}, lineno {f['line']}, in {f['name']}" for f in frames)
    return lines + (f"\n            {frames[-1]['loc']}" if frames else "")


def _locals(found: dict[str, Any]) -> str:
    if not found:
        return ""
    lines = "\n        Locals:" + "".join(f"\n            {name}: {value}" for name, value in found["locals"].items())
    if found["symbols"]:
        lines += "\n\n        Symbols:" + "".join(f"\n           {name}: {s}" for name, s in found["symbols"].items())
    return lines + "\n"


_FRAME = "#" * 99


class DraftExportReport:
    """What draft_export has found: failures, and op_profiles, by which operators without a right fake can be given one for a
    while (torch._library.fake_profile.unsafe_generate_fake_kernels).

    expressions_created: what is known of the expressions of failures, by data["expr_node_id"]; str_to_filename: the files of
    their stacks.
    """

    def __init__(
        self,
        failures: list[FailureReport],
        str_to_filename: dict[int, str],
        expressions_created: dict[int, dict[str, Any]],
        op_profiles: dict[str, set[OpProfile]],
    ) -> None:
        self.failures, self.str_to_filename = failures, str_to_filename
        self.expressions_created, self.op_profiles = expressions_created, op_profiles

    def successful(self) -> bool:
        """Whether the program is as torch.export.export would have made it: no failures, or such as were expected."""
        return len(self.failures) == 0 or all(failure.xfail for failure in self.failures)

    def __repr__(self) -> str:
        return f"DraftExportReport({self.failures})"

    def __str__(self) -> str:
        if self.successful():
            frame = "#" * 94
            return (
                f"\033[92m\n{frame}\nCongratulations: No issues are found during export, and it was able to soundly produce "
                f"a graph.\nYou can now change back to torch.export.export()\n{frame}\n\033[0m"
            )
        start = (
            f"\033[93m\n{_FRAME}\nWARNING: {len(self.failures)} issue(s) found during export, and it was not able to "
            f"soundly produce a graph.\nPlease follow the instructions to fix the errors.\n{_FRAME}\n\n"
        )
        return start + "".join(f"{i}. {f.print(self.str_to_filename)}\n" for i, f in enumerate(self.failures, 1)) + "\033[0m"

    def apply_suggested_fixes(self) -> NoReturn:
        """NotImplementedError, as in PyTorch."""
        raise NotImplementedError("Not implemented yet")


class CaptureStructuredTrace:
    """Context: what traces tell that begin in it becomes `failures`, each once for a place of the program, and `op_profiles`."""

    def __init__(self) -> None:
        self.failures: list[FailureReport] = []
        self.op_profiles: dict[str, set[OpProfile]] = collections.defaultdict(set)
        self.expressions_created: dict[int, dict[str, Any]] = {}
        self._files: dict[str, int] = {}
        self._known: dict[Any, FailureReport] = {}

    def __enter__(self) -> CaptureStructuredTrace:
        self._block = reported_to(self)
        self._block.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._block.__exit__(*exception)

    @property
    def str_to_filename(self) -> dict[int, str]:
        """The files of stacks by the numbers that stand for them."""
        return {number: name for name, number in self._files.items()}

    def _add(self, kind: FailureType, key: Any, data: dict[str, Any]) -> FailureReport:
        if (kind, key) not in self._known:
            made = self._known[kind, key] = FailureReport(kind, data)
            self.failures.append(made)
        return self._known[kind, key]

    # ---- what a trace tells

    def missing_fake(self, overload: Any) -> None:
        """An operator has no fake."""
        self._add(FailureType.MISSING_FAKE_KERNEL, str(overload), {"op": str(overload)})

    def mismatched_fake(self, overload: Any, reason: str) -> None:
        """The fake of an operator is wrong."""
        self._add(FailureType.MISMATCHED_FAKE_KERNEL, (str(overload), reason), {"op": str(overload), "reason": reason})

    def profiled(self, overload: Any, args: Any, made: Any) -> None:
        """What the results of an operator were like."""
        self.op_profiles[str(overload)].add(OpProfile.of_call(args, made))

    def data_dependent(self, env: Any, expr: Expr, held: bool) -> None:
        """A question was answered by the values of the example."""
        data = {"expr": str(expr), "result": str(held), **self._place(env, expr)}
        found = self._add(FailureType.DATA_DEPENDENT_ERROR, _key(data), data)
        found.data["occurrences"] = found.data.get("occurrences", 0) + 1

    def guarded(self, env: Any, expr: Expr) -> None:
        """The trace depends on a condition."""
        data = {"expr": str(expr), "prefix": "eval", **self._place(env, expr)}
        self._add(FailureType.GUARD_ADDED, _key(data), data)

    def _place(self, env: Any, expr: Expr) -> dict[str, Any]:
        frames = user_frames()
        stack = [self._line(frame, line) for frame, line in frames]
        sources = _sources(env, expr.free_symbols)
        self.expressions_created[id(expr)] = {"result": str(expr), "user_stack": stack, "symbol_to_sources": sources}
        return {
            "expr_node_id": id(expr),
            "user_stack": stack,
            "stack": stack,
            "symbol_to_sources": sources,
            "frame_locals": _frame_locals(env, *frames[-1]) if frames else {},
        }

    def _line(self, frame: FrameType, line: int) -> dict[str, Any]:
        code = frame.f_code
        number = self._files.setdefault(code.co_filename, len(self._files))
        text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
        return {"line": line, "name": code.co_name, "filename": number, "loc": text}


def _key(data: dict[str, Any]) -> Any:
    return tuple((f["filename"], f["line"], f["name"]) for f in data["user_stack"]) or data["expr"]


def _sources(env: Any, symbols: Any) -> dict[str, str]:
    return {s.name: env.var_to_sources[s][0].name for s in sorted(symbols, key=lambda s: s.name) if env.var_to_sources.get(s)}


def _frame_locals(env: Any, frame: FrameType, line: int) -> dict[str, Any]:
    """The statement at a line of the program, and the shapes of what it names."""
    source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    statement = _statement(source, line)
    if statement is None:
        return {}
    text = "\n".join(_dedented(source.splitlines()[statement.lineno - 1 : statement.end_lineno]))
    names = sorted({n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}.intersection(frame.f_locals))
    symbols: set[Expr] = set()
    shown = {}
    for name in names:
        value = frame.f_locals[name]
        if not isinstance(value, torch.nn.Module):
            leaves = pytree.tree_leaves(value)
            shown[name] = [_shown(x) for x in leaves]
            symbols.update(*map(_symbols_of, leaves))
    return {"loc": text, "locals": shown, "symbols": _sources(env, symbols)}


def _statement(source: str, line: int) -> ast.stmt | None:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    inner = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    return min(inner, key=lambda n: (n.end_lineno or sys.maxsize) - n.lineno, default=None)


def _dedented(lines: list[str]) -> Iterator[str]:
    own = len(lines[0]) - len(lines[0].lstrip())
    for line in lines:
        yield line[own:] if not line[:own].strip() else line


def _shown(x: Any) -> str | None:
    if isinstance(x, torch.Tensor):
        return f"Tensor(shape: {x.shape}, stride: {x.stride()}, storage_offset: {x.storage_offset()})"
    return str(x) if is_symbolic_number(x) else None


def _symbols_of(x: Any) -> set[Expr]:
    numbers = [*x.shape, *x.stride(), x.storage_offset()] if isinstance(x, torch.Tensor) else [x]
    return set().union(*[n.node.expr.free_symbols for n in numbers if is_symbolic_number(n)])
