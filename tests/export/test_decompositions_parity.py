"""Decomposed programs beside PyTorch's: code and signature of the same modules. Skipped without PyTorch."""

import json
import pathlib
import subprocess

import pytest

import flambeau

MODELS = pathlib.Path(__file__).with_name("decomposition_models.py").read_text()
#: Attention's result lies as its query does in PyTorch, and in order here: a copy more. kl_div isn't one operator in the program.
APART = {"gpt of one projection", "divergence"}
PRINT = """
import json
made = {}
for name, (model, given) in models(torch).items():
    program = torch.export.export(model, given).run_decompositions()
    made[name] = [program.graph_module.code, str(program.graph_signature)]
"""


def test_decomposed_programs_are_pytorchs(torch_python) -> None:
    own: dict = {"torch": flambeau}
    exec(MODELS + PRINT, own)
    source = f"{MODELS}\nimport torch, torch.export\n{PRINT}\nprint(json.dumps(made))"
    answer = subprocess.run(
        [torch_python, "-W", "ignore", "-c", source], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if answer.returncode:
        pytest.fail(answer.stderr)
    expected = json.loads(answer.stdout)
    assert set(expected) == set(own["made"])
    assert {name for name, program in expected.items() if own["made"][name] != program} == APART
