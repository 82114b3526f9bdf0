"""Functions written anew before they are traced: an `assert` becomes a call that a trace records, an annotated variable too.

Stands on fx._symbolic_trace and on the text of functions. Used by programs.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import flambeau as torch
import flambeau.fx.annotate  # which what is written anew calls
from flambeau.fx._symbolic_trace import Tracer
from flambeau.fx.graph import Graph
from flambeau.nn import Module

__all__ = ["AST_Rewriter", "RewritingTracer"]


class AST_Rewriter(ast.NodeTransformer):
    """Writes a function anew: what can't be traced becomes a call that can. Override `visit_...` for more."""

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """A function that does what `fn` does, with its globals, defaults and closure. OSError for one without text."""
        module = ast.parse(textwrap.dedent(inspect.getsource(fn)))
        definition = self.visit(module).body[0]
        free = fn.__code__.co_freevars
        # Names of the closure are free only in a function that stands in one that has them.
        around = ast.parse(f"def around({', '.join(free)}):\n    pass").body[0]
        assert isinstance(around, ast.FunctionDef)
        definition.decorator_list = []
        around.body = [definition]
        module.body = [around]
        compiled = compile(ast.fix_missing_locations(module), fn.__code__.co_filename, "exec")
        made = _code_of(_code_of(compiled, "around"), fn.__name__)
        cells = dict(zip(free, fn.__closure__ or ()))
        closure = tuple(cells[name] for name in made.co_freevars)
        rewritten = FunctionType(made, fn.__globals__, fn.__name__, fn.__defaults__, closure)
        rewritten.__kwdefaults__ = copy.copy(fn.__kwdefaults__)
        rewritten.__annotations__ = dict(fn.__annotations__)
        return rewritten

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """`assert test, words` as torch._assert(test, words)."""
        call = ast.parse("torch._assert()", mode="eval").body
        assert isinstance(call, ast.Call)
        call.args = [node.test, node.msg or ast.Constant("")]
        return ast.copy_location(ast.Expr(call), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign | ast.AnnAssign:
        """`x: T = value` as x = torch.fx.annotate.annotate(value, T)."""
        if node.value is None:
            return node
        call = ast.parse("torch.fx.annotate.annotate()", mode="eval").body
        assert isinstance(call, ast.Call)
        call.args = [node.value, node.annotation]
        return ast.copy_location(ast.Assign([node.target], call), node)


def _code_of(code: CodeType, name: str) -> CodeType:
    """The code of the function of that name in another's."""
    return next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)


class RewritingTracer(Tracer):
    """Traces what AST_Rewriter makes of a function, or of the forward of a module and of all modules in it."""

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of what `root` does, as Tracer.trace gives it."""
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(fn: Module | Callable[..., Any]) -> Module | Callable[..., Any]:
    if isinstance(fn, Module):
        return _rewritten_module(fn)
    return AST_Rewriter().rewrite(fn) if isinstance(fn, FunctionType) else fn


def _rewritten_module(module: Module) -> Module:
    """A module with the same parameters, buffers and attributes, whose forward and submodules are written anew."""

    class RewrittenModule(Module):
        def __init__(self, original: Module) -> None:
            super().__init__()
            for name, value in vars(original).items():
                self.__dict__[name] = copy.copy(value) if isinstance(value, Module) else value
            self.__dict__["_modules"] = {
                name: None if child is None else _rewritten_child(child) for name, child in original._modules.items()
            }

    RewrittenModule.forward = AST_Rewriter().rewrite(type(module).forward)  # type: ignore[assignment, arg-type]
    return RewrittenModule(module)


def _rewritten_child(child: Module) -> Module:
    """A submodule as a trace goes into it; those of torch.nn are leaves, and stay."""
    return child if type(child).__module__.startswith(f"{torch.__name__}.nn") else _rewritten_module(child)
