"""What an interpreter does first that a program under `flambeau run` has started: `import torch` means flambeau there too.

Python imports `sitecustomize` from the first folder of its path that has one; `flambeau_torch.install_in_children` puts
this folder there. Workers of a process pool that begin by "spawn" or "forkserver", and `subprocess.run([sys.executable,
...])`, get here.
"""

import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _run_next() -> None:
    """Run the sitecustomize that this one stands in front of."""
    others = [folder for folder in sys.path if os.path.abspath(folder) != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


try:
    import flambeau_torch
except ModuleNotFoundError:
    pass  # another environment's Python, which has its own torch or none
else:
    flambeau_torch.install()
_run_next()
