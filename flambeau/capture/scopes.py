"""Names of a function's tree: those that it binds, and those of its surroundings that it sets. Standard library only."""

from __future__ import annotations

import ast

__all__ = ["bound_by", "declared", "set_otherwise"]


def bound_by(node: ast.AST) -> set[str]:
    """The names that a function, lambda or comprehension binds in its own scope."""
    bound: set[str] = set()
    declared: set[str] = set()

    def visit(at: ast.AST, top: bool = False) -> None:
        match at:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                bound.add(at.id)
            case ast.Global() | ast.Nonlocal():
                declared.update(at.names)
            case ast.Import() | ast.ImportFrom():
                bound.update((alias.asname or alias.name).split(".")[0] for alias in at.names)
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() if at.name:
                bound.add(at.name)
            case ast.MatchMapping() if at.rest:
                bound.add(at.rest)
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not top:
            bound.add(at.name)
            for each in (*at.decorator_list, *_outside(at)):
                visit(each)
        elif isinstance(at, ast.Lambda) and not top:
            for each in _outside(at):
                visit(each)
        elif isinstance(at, COMPREHENSIONS) and not top:
            visit(at.generators[0].iter)
            bound.update(n.target.id for n in ast.walk(at) if isinstance(n, ast.NamedExpr) and isinstance(n.target, ast.Name))
        else:
            for child in ast.iter_child_nodes(at):
                visit(child)

    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        arguments = node.args
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        bound |= {a.arg for a in every if a is not None}
        for part in node.body if isinstance(node.body, list) else [node.body]:
            visit(part)
    elif isinstance(node, COMPREHENSIONS):
        for generator in node.generators:
            visit(generator.target)
    else:
        visit(node, True)
    return bound - declared


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _outside(node: ast.AST) -> list[ast.expr]:
    """The expressions of a definition that are evaluated where it stands: defaults, annotations, bases."""
    if isinstance(node, ast.ClassDef):
        return [*node.bases, *(k.value for k in node.keywords)]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        a = node.args
        annotated = [x.annotation for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x and x.annotation]
        returned = None if isinstance(node, ast.Lambda) else node.returns
        return [*a.defaults, *(d for d in a.kw_defaults if d is not None), *annotated, *([returned] if returned else [])]
    return []


def declared(node: ast.AST) -> tuple[set[str], set[str]]:
    """The names that a function, or one inside it, declares global, and those that it declares nonlocal."""
    names = [
        {name for each in ast.walk(node) if isinstance(each, kind) for name in each.names} for kind in (ast.Global, ast.Nonlocal)
    ]
    return names[0], names[1]


def set_otherwise(node: ast.AST) -> set[str]:
    """The names that are set by anything but an assignment in a function or in one inside it, and those of inner variables."""
    assigned: set[int] = set()
    names: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.Assign():
                assigned.update(id(n) for target in each.targets for n in ast.walk(target))
            case ast.AugAssign():
                assigned.add(id(each.target))
            case ast.Import() | ast.ImportFrom():
                names.update((alias.asname or alias.name).split(".")[0] for alias in each.names)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler() if each.name:
                names.add(each.name)
            case ast.MatchAs() | ast.MatchStar() if each.name:
                names.add(each.name)
            case ast.MatchMapping() if each.rest:
                names.add(each.rest)
        if isinstance(each, (ast.FunctionDef, ast.Lambda)):
            names |= bound_by(each) & declared(node)[0]
    stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    return names | {n.id for n in stored if id(n) not in assigned}
