"""`python -m flambeau ...` is the command `flambeau`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
