"""The name torch: what makes `import torch` mean flambeau, and the command `flambeau`.

A package beside `flambeau`, not inside it, because it comes first: whether the modules and classes of flambeau are called
torch.* or flambeau.* is decided when they are loaded, and an interpreter that never imports torch should not load them at all.
Stands on the standard library.

    redirection    a finder that loads flambeau under the name torch
    startup        a folder on the path of child processes, where the finder is installed too
    distribution   a distribution named torch in an environment or as a wheel
    command        `flambeau run`, `flambeau install-torch`, ...
"""

from .redirection import install, install_in_children, installed

__all__ = ["install", "install_in_children", "installed"]
