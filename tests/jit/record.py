"""Records what torch.jit.script makes of the programs in `corpus`: run it under PyTorch to write `expected`.

    FLAMBEAU_TEST_IMPL=torch python tests/jit/record.py

`outcome` is also what test_corpus compares: graph, code, schema, results of the inputs that a program gives, or the error's
words.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from implementation import torch

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in (HERE / "corpus").glob("*.py"))


def module(name: str) -> ModuleType:
    """A file of programs, imported under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"jit_corpus_{name}", HERE / "corpus" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def items(made: ModuleType) -> dict[str, Any]:
    """What is to be compiled of a file: its PROGRAMS, or its functions."""
    if hasattr(made, "PROGRAMS"):
        return dict(made.PROGRAMS())
    return {
        name: value
        for name, value in vars(made).items()
        if isinstance(value, FunctionType) and value.__module__ == made.__name__ and not name.startswith("_")
    }


def _shown(text: str) -> str:
    """Words without where the files lie."""
    text = re.sub(r"[^\s\"]*/corpus/", "", text)
    text = re.sub(r" # /[^\n]*", "", text)  # what stands in the package's own files
    text = re.sub(r"___torch_mangle_\d+\.", "", text)  # whether another type has the name
    return re.sub(r"\b(flambeau|torch)(?=[.]jit[.])", "torch", text)


def _result(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return [str(value.dtype).rpartition(".")[2], list(value.shape), value.detach().double().flatten().tolist()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__ == "tuple", *map(_result, value)]
    if isinstance(value, dict):
        return [[_result(k), _result(v)] for k, v in value.items()]
    return repr(value)


def outcome(name: str, program: Any, inputs: Any = None) -> dict[str, Any]:
    """What scripting a program gives, and running it."""
    try:
        made = torch.jit.script(program)
    except Exception as error:
        return {"error": _shown(f"{type(error).__name__}: {error}")}
    found: dict[str, Any] = {"graph": _shown(str(made.graph)), "code": _shown(made.code)}
    if inputs is not None:
        printed = io.StringIO()
        try:
            torch.manual_seed(0)
            with contextlib.redirect_stdout(printed):
                found["result"] = _result(made(*inputs()))
        except Exception as error:
            found["result"] = _shown(f"{type(error).__name__}: {error}")
    return found


def all_of(name: str) -> dict[str, Any]:
    """The outcomes of a file's programs."""
    made = module(name)
    inputs = getattr(made, "INPUTS", {})
    return {key: outcome(key, program, inputs.get(key)) for key, program in items(made).items()}


if __name__ == "__main__":
    for each in NAMES:
        (HERE / "expected" / f"{each}.json").write_text(json.dumps(all_of(each), indent=1) + "\n")
