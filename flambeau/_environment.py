"""torch._environment: where this package comes from."""


def is_fbcode() -> bool:
    """False: from no repository of Meta's."""
    return False
