"""What a program asks about traces. Compiled in the place of the function of the same name."""

import flambeau as torch


def is_tracing() -> bool:
    if torch.jit.is_scripting():
        return False
    return True
