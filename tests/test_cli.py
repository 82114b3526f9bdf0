"""The command: programs that import torch run under flambeau, as Python would run them."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flambeau import version
from flambeau.version import TorchVersion

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def flambeau(run_python: Run, tmp_path: Path) -> Run:
    """Runs the command in an empty folder."""

    def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        return run_python("-m", "flambeau_torch", *arguments, cwd=tmp_path, **options)

    return run


def written(folder: Path, name: str, source: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return path


REDIRECTION = """
import importlib.metadata, importlib.util
assert importlib.util.find_spec("torch") is not None        # before anything is imported
assert importlib.util.find_spec("torch.nn.functional") is not None
assert importlib.util.find_spec("torch.no_such_module") is None
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim.lr_scheduler
from torch import Tensor
from torch.utils.data import DataLoader
import flambeau, flambeau.nn, flambeau.utils.data
assert torch is flambeau and nn is flambeau.nn and F is flambeau.nn.functional
assert DataLoader is flambeau.utils.data.DataLoader and nn.Linear is flambeau.nn.Linear
assert isinstance(torch.ones(2), flambeau.Tensor) and isinstance(flambeau.ones(2), Tensor)
assert flambeau.nn.__name__ == flambeau.nn.__spec__.name == "torch.nn" and torch.__name__ == "torch"
assert importlib.metadata.version("torch") == torch.__version__
assert "torch" in {each.metadata["Name"] for each in importlib.metadata.distributions()}
assert importlib.util.find_spec("torch") is not None
try:
    import torch.no_such_module
except ModuleNotFoundError as error:
    assert "torch.no_such_module" in str(error)
else:
    raise AssertionError
print("redirected")
"""


def test_torch_is_flambeau(flambeau: Run, tmp_path: Path) -> None:
    answer = flambeau("run", written(tmp_path, "program.py", REDIRECTION))
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "redirected\n", "")


def test_nothing_is_redirected_without_asking(run_python: Run, tmp_path: Path) -> None:
    """The one finder that importing flambeau adds is that of its own modules that have no files."""
    source = "import flambeau, sys; assert 'torch' not in sys.modules; from flambeau.compat import AliasFinder as own; "
    source += (
        "sys.meta_path.remove(own); assert own.find_spec('torch') is own.find_spec('torch.nn') is None; print(len(sys.meta_path))"
    )
    plain = run_python("-c", "import sys; print(len(sys.meta_path))", cwd=tmp_path)
    assert run_python("-c", source, cwd=tmp_path).stdout == plain.stdout


PROGRAM = """
import sys
import beside
print(__name__, sys.argv[1:], __file__ == sys.modules["__main__"].__file__, beside.__name__, __package__, __spec__)
"""


def test_a_script_sees_what_python_shows_it(flambeau: Run, run_python: Run, tmp_path: Path) -> None:
    script = written(tmp_path, "folder/program.py", PROGRAM)
    written(tmp_path, "folder/beside.py", "")
    arguments = ["folder/program.py", "-x", "--epochs", "3"]
    answer, python = flambeau("run", *arguments), run_python(*arguments, cwd=tmp_path)
    assert script.exists() and answer.stderr == "" and answer.returncode == 0
    assert answer.stdout == python.stdout == "__main__ ['-x', '--epochs', '3'] True beside None None\n"


def test_a_module_runs_as_python_runs_it(flambeau: Run, run_python: Run, tmp_path: Path) -> None:
    written(tmp_path, "package/__init__.py", "")
    written(tmp_path, "package/other.py", "word = 'found'")
    tool = "import sys\nfrom .other import word\nprint(word, __name__, __package__, sys.argv)"
    written(tmp_path, "package/tool.py", tool)
    written(tmp_path, "package/__main__.py", "from .other import word\nprint('main', word, __spec__.name)")
    for arguments in (["-m", "package.tool", "a", "-b"], ["-m", "package"]):
        answer, python = flambeau("run", *arguments), run_python(*arguments, cwd=tmp_path)
        assert answer.stdout == python.stdout != "" and answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(
    "source",
    [
        "def fail():\n    raise ValueError('no')\n\nfail()\n",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('k') from error\n",
        "x = (1,\ny = 2\n",
        "import sys\nsys.exit(3)\n",
        "import sys\nsys.exit('a last word')\n",
        "raise SystemExit\n",
    ],
    ids=["error", "cause", "syntax", "exit", "exit_message", "exit_plain"],
)
def test_a_failing_script_ends_as_under_python(flambeau: Run, run_python: Run, tmp_path: Path, source: str) -> None:
    written(tmp_path, "program.py", source)
    answer, python = flambeau("run", "program.py"), run_python("program.py", cwd=tmp_path)
    assert (answer.returncode, answer.stderr, answer.stdout) == (python.returncode, python.stderr, python.stdout)


@pytest.mark.parametrize("arguments", [["missing.py"], ["-m", "missing"], ["-m", "missing.module"]])
def test_what_is_not_there(flambeau: Run, run_python: Run, tmp_path: Path, arguments: list[str]) -> None:
    answer, python = flambeau("run", *arguments), run_python(*arguments, cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (python.returncode, python.stderr)


WORKERS = """
import pickle
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return index * index

if __name__ == "__main__":
    assert type(pickle.loads(pickle.dumps(Squares()))) is Squares
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context={context!r})
    print([batch.tolist() for batch in loader])
"""


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_classes_of_the_program_can_be_pickled_and_sent_to_workers(flambeau: Run, tmp_path: Path, context: str) -> None:
    answer = flambeau("run", written(tmp_path, "program.py", WORKERS.format(context=context)))
    assert (answer.stdout, answer.returncode) == ("[[0, 1], [4, 9]]\n", 0), answer.stderr


def test_python_processes_that_a_program_starts(flambeau: Run, tmp_path: Path) -> None:
    written(tmp_path, "site/sitecustomize.py", "import sys; sys.of_the_user = True")
    source = """
import subprocess, sys
command = "import sys, torch, importlib.metadata; print(torch.__name__, sys.of_the_user, importlib.metadata.version('torch'))"
subprocess.run([sys.executable, "-c", command], check=True)
"""
    starter = f"""
import os, subprocess, sys
os.environ["PYTHONPATH"] = os.pathsep.join([{str(tmp_path / "site")!r}, os.environ.get("PYTHONPATH", "")])
sys.exit(subprocess.call([sys.executable, "-m", "flambeau_torch", "run", {str(written(tmp_path, "program.py", source))!r}]))
"""
    answer = flambeau("run", written(tmp_path, "starter.py", starter))
    assert answer.stdout == f"torch True {version.__version__}\n", answer.stderr


def test_where(flambeau: Run) -> None:
    answer = flambeau("where", "--llvm", "relu")
    assert answer.returncode == 0 and "torch.relu" in answer.stdout and "torch.nn.functional.relu" in answer.stdout
    text = " ".join(answer.stdout.split())
    assert "loops relu over [4, 4]: in0 -> out0" in text and "define void @relu.float32(" in text
    answer = flambeau("where", "cdist")  # a composite: the rule is another operator's
    assert "_cdist_forward, which calls of cdist leave in the graph: derivative rule" in answer.stdout
    assert "plan of cdist on float32" in answer.stdout and "define " not in answer.stdout
    answer = flambeau("where", "aten.add.Tensor")
    assert answer.returncode == 0 and "torch.ops.aten.add.Tensor" in answer.stdout and "\ndeclaration  " in answer.stdout
    assert "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" in answer.stdout
    assert "torch.ops.aten.cdist.default" in flambeau("where", "aten.cdist").stdout
    answer = flambeau("where", "no_such_operator")
    assert answer.returncode == 1 and "no_such_operator" in answer.stderr


LINE = "import sys, torch; print(torch.nn.Linear, sys.argv)"


def test_what_python_reads_itself(flambeau: Run, run_python: Run, tmp_path: Path) -> None:
    expected = "<class 'torch.nn.modules.linear.Linear'> "
    assert flambeau("run", "-c", LINE, "a", "-b").stdout == expected + "['-c', 'a', '-b']\n"
    assert flambeau("run", "-", "a", input=LINE).stdout == expected + "['-', 'a']\n"
    assert flambeau("run", input=LINE).stdout == expected + "['']\n"
    failed, python = flambeau("run", "-c", "1 / 0"), run_python("-c", "1 / 0", cwd=tmp_path)
    assert (failed.returncode, failed.stderr) == (python.returncode, python.stderr)


def test_a_prompt(root: Path, tmp_path: Path) -> None:
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"needs a pseudo-terminal: {error}")
    environment = {**os.environ, "PYTHONPATH": str(root), "TERM": "dumb", "PYTHON_BASIC_REPL": "1", "HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "flambeau_torch", "run"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=tmp_path,
        close_fds=True,
    )
    os.close(theirs)
    os.write(ours, b"import torch\ntorch.arange(3)\nexit()\n")
    shown = b""
    with contextlib.suppress(OSError):  # what reading a terminal ends with whose other side is closed
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    assert process.wait(60) == 0
    assert b"`import torch` means flambeau here" in shown and b">>> " in shown and b"tensor([0, 1, 2])" in shown


def test_a_folder_and_a_zip_file_run_as_under_python(flambeau: Run, run_python: Run, tmp_path: Path) -> None:
    source = "import beside, sys\nprint(beside.word, __name__, __package__ == '', __spec__.name, sys.argv, sys.path[0])\n"
    written(tmp_path, "app/__main__.py", source)
    written(tmp_path, "app/beside.py", "word = 'found'")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        for file in (tmp_path / "app").iterdir():
            archive.write(file, file.name)
    (tmp_path / "empty").mkdir()
    for program in ("app", "app.zip", "empty"):
        answer, python = flambeau("run", program, "x"), run_python(program, "x", cwd=tmp_path)
        assert (answer.returncode, answer.stdout, answer.stderr) == (python.returncode, python.stdout, python.stderr)


def test_the_command_as_a_module_of_flambeau(run_python: Run, tmp_path: Path) -> None:
    # by then flambeau is loaded under its own name: the program runs in a Python that starts anew, with the same options
    program = written(tmp_path, "program.py", LINE + "; print(sys.warnoptions)")
    answer = run_python("-W", "error", "-m", "flambeau", "run", program)
    assert answer.stdout.endswith("program.py']\n['error']\n") and "torch.nn.modules.linear" in answer.stdout, answer.stderr
    old = f"import sys; from flambeau.cli import main; sys.argv[1:] = ['run', {str(program)!r}]; sys.exit(main())"
    assert "torch.nn.modules.linear" in run_python("-c", old, cwd=tmp_path).stdout


def test_version_and_usage(flambeau: Run) -> None:
    assert flambeau("--version").stdout == f"flambeau {version.FLAMBEAU} (the API of PyTorch {version.PYTORCH})\n"
    assert flambeau("--help").stdout.startswith("usage: flambeau run script.py [args]")
    for wrong in ([], ["run", "-m"], ["run", "-c"], ["run", "-x"], ["walk"], ["where"], ["install-torch", "x"]):
        answer = flambeau(*wrong)
        assert answer.returncode == 2 and answer.stderr.startswith("usage:")


def test_versions_compare_by_their_numbers() -> None:
    ours = TorchVersion("2.13.0+flambeau.0.1.0")
    assert ours >= "2.9" and ours > "2.5.1" and ours < "2.14" and ours >= (2, 13) and not ours < "2.13.0"
    assert ours == "2.13.0+flambeau.0.1.0" and ours != "2.13.0" and TorchVersion("2.13") == "2.13.0"
    assert ours.startswith("2.13") and isinstance(version.__version__, str)


def test_a_module_that_is_made_by_the_package_has_the_name_torch_too(run_python: Run, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import flambeau, flambeau_torch\nflambeau_torch.install()\nimport torch.backends.cudnn as cudnn\n"
        "print(cudnn is flambeau.backends.cudnn)\n"
    )
    assert run_python(str(program)).stdout == "True\n"


MANY_THREADS = """
import importlib, sys, threading
import torch
sys.setswitchinterval(1e-6)
names = "base.whole_files testing utils.benchmark futures hub distributions signal.windows utils.flop_counter quasirandom".split()
wrong = []
def load(name, barrier):
    barrier.wait()
    module = __import__("flambeau." + name, fromlist=["x"])     # as the statement does
    if module is not sys.modules.get("torch." + name) or len(vars(module)) < 9:
        wrong.append(name)
for name in names:
    barrier = threading.Barrier(8)
    threads = [threading.Thread(target=load, args=(name, barrier)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.modules["torch." + name].__spec__.name == "torch." + name
assert not wrong, wrong
"""


def test_threads_that_import_an_alias_at_once_get_the_module(flambeau: Run, tmp_path: Path) -> None:
    ended = flambeau("run", written(tmp_path, "threads.py", MANY_THREADS))
    assert ended.returncode == 0, ended.stderr
