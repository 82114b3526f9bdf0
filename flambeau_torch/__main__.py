"""`python -m flambeau_torch`: the command `flambeau`."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
