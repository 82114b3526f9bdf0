"""torch.distributed.elastic.utils: free ports and stores for launchers."""

import os


def get_env_variable_or_raise(env_name: str) -> str:
    """A variable of the environment. Raises ValueError if it isn't set."""
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value
