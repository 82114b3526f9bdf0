"""What every declared operator has to say of itself, and that the generated stubs are up to date."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import flambeau as torch
from flambeau.core.operator.opdef import Operator
from flambeau.core.operator.pointwise import Pointwise
from flambeau.core.operator.publishing import OPERATORS


def implementation_of(operator: object) -> object:
    return getattr(operator, "body", None) or getattr(operator, "implementation", None)


def test_there_are_operators() -> None:
    assert len(OPERATORS) > 100


def public_of(name: str) -> object:
    rooms = (torch, torch.Tensor, torch.nn.functional, torch.linalg, torch.fft, torch.special)
    return next((found for room in rooms if (found := getattr(room, name, None)) is not None), None)


def test_every_operator_has_a_docstring() -> None:
    """Those whose name begins with an underscore are parts of others."""
    silent = [
        name
        for name, operator in list(OPERATORS.items())  # looking for a name may import a room
        if not name.startswith("_")
        and not any(
            inspect.getdoc(thing)
            for thing in (getattr(operator, "public", None), implementation_of(operator), public_of(name))
            if thing
        )
    ]
    assert not silent, f"no docstring: {', '.join(sorted(silent))}"


# Without a gradient: results that are whole numbers, truths, samples or steps of others, and what PyTorch gives none for.
NOT_DIFFERENTIABLE = set(
    """
    all any argmax argmin binomial count_nonzero geqrf linalg_ldl_factor_ex linalg_ldl_solve multinomial nonzero rrelu_slopes
    _dirichlet_grad _standard_gamma_grad _eigenvalues _hermitian_values _singular_values
    _reflectors_product _reflectors_times _unique2 unique_dim _gradient_of_scores
    """.split()
)


def test_every_operator_has_a_gradient_or_is_known_to_have_none() -> None:
    """Pointwise bodies are differentiated, composites are their parts; the others have a rule."""
    assert {type(operator) for operator in OPERATORS.values()} <= {Pointwise, Operator}
    without = {
        name
        for name, operator in OPERATORS.items()
        if isinstance(operator, Operator) and operator.rule is None and not operator.composite
    }
    assert without == NOT_DIFFERENTIABLE


def test_the_stubs_are_up_to_date(root: Path) -> None:
    answer = subprocess.run(
        [sys.executable, str(root / "tools" / "make_stubs.py"), "--check"], capture_output=True, text=True, cwd=root
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_rules_save_what_they_use(root: Path) -> None:
    """A parameter of a rule (`@operator.vjp`) is saved for it: one it doesn't use, or of which it only looks at the layout
    (there is `layouts` for that), would hold memory, and refuse to be written to before the backward pass."""
    only_layout = {"_layout", "shape", "dtype", "ndim", "device", "dim", "is_complex", "is_floating_point"}
    needless = []
    for path in sorted((root / "flambeau" / "ops").rglob("*.py")):
        tree = ast.parse(path.read_text())
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        rules: list[ast.FunctionDef] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                rules += [node for decorator in node.decorator_list if getattr(decorator, "attr", "") == "vjp"]
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "vjp" and isinstance(node.args[0], ast.Name):
                rules += [functions[node.args[0].id]] if node.args[0].id in functions else []
        for rule in rules:
            for parameter in {argument.arg for argument in rule.args.args} - {"g", "gs", "need", "layouts"}:
                uses = [node for node in ast.walk(rule) if isinstance(node, ast.Name) and node.id == parameter]
                looks = [
                    node
                    for node in ast.walk(rule)
                    if isinstance(node, ast.Attribute)
                    and node.attr in only_layout
                    and isinstance(node.value, ast.Name)
                    and node.value.id == parameter
                ]
                if len(looks) == len(uses):
                    needless.append(f"{path.name}:{rule.lineno} {parameter}")
    assert not needless


def test_programs_find_what_pytorch_has_and_no_more() -> None:
    """`hasattr` is asked by programs that adapt: some functions are no methods, most writing methods no functions."""
    for name in (
        "combinations",
        "constant_pad_nd",
        "fill",
        "fill_diagonal",
        "histogramdd",
        "names",
        "poisson",
        "rsub",
        "std_mean",
        "var_mean",
    ):
        assert not hasattr(torch.Tensor, name), name
    for name in ("addmm_", "baddbmm_", "cumsum_", "index_add_", "masked_fill_", "put_", "scatter_", "tril_", "fill_diagonal_"):
        assert not hasattr(torch, name) and hasattr(torch.Tensor, name), name
    for name in ("addmv_", "relu_", "fill_", "zero_", "index_put_"):
        assert hasattr(torch, name) and hasattr(torch.Tensor, name), name
