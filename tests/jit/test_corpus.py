"""Programs of all kinds against what PyTorch makes of them: graphs and texts to the character, errors to the mark, results.

`record` writes what is expected. The differences that are left are listed here; one that is gone must leave the list.
"""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import pytest
from record import HERE, NAMES, all_of

# By file, program and what of it differs: PyTorch's numbers of values, a word that only its binding has.
KNOWN = {
    "classes.forked.graph",  # values that nothing reads take numbers
    "errors.while_else.error",  # PyTorch fails to show the place
    "libraries.fused_add_tanh.graph",
    "modules.linear.graph",
    "types.instances.graph",
}


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("name", NAMES)
def test_programs_are_what_pytorch_makes_of_them(name: str) -> None:
    expected = json.loads((HERE / "expected" / f"{name}.json").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = all_of(name)
    assert found.keys() == expected.keys()
    different = set()
    for program, outcome in expected.items():
        for part in outcome.keys() | found[program].keys():
            mine, theirs = found[program].get(part), outcome.get(part)
            same = close(json.loads(json.dumps(mine)), theirs) if part == "result" else mine == theirs
            if not same:
                different.add(f"{name}.{program}.{part}")
    assert different == {each for each in KNOWN if each.startswith(f"{name}.")}
