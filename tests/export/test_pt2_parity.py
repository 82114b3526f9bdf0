"""Programs of 20 models in .pt2 files, written by PyTorch and read here, and the other way. Skipped without PyTorch."""

import json
import pathlib
import subprocess

import pt2_models

import flambeau as torch


class _Near:
    """Equal to differences that are rounding."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and other < 1e-5

    def __repr__(self) -> str:
        return "less than 1e-5"


NEAR = _Near()


def test_archives_go_both_ways(torch_python, tmp_path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    assert {name: error for name, error in pt2_models.write(torch, ours).items() if error} == {}
    command = [torch_python, "-W", "ignore", "-c", "import pt2_models; pt2_models.main()", "torch"]
    here = pathlib.Path(__file__).parent
    command += [f"read={ours}", f"write={theirs}", f"write_inner={theirs}"]
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            cwd=here)  # fmt: skip
    assert not answer.returncode, answer.stderr
    read, *written = json.loads(answer.stdout)
    assert {name: error for said in written for name, error in said.items() if error} == {}
    assert len(read) == 20 and read == dict.fromkeys(read, NEAR)
    assert pt2_models.read(torch, theirs) == dict.fromkeys(read, NEAR)
    assert pt2_models.read(torch, theirs, pt2_models.inner_graphs) == {"modes": NEAR, "loops": NEAR}
