"""`python -m flambeau ...` is the command `flambeau`; programs are run by a Python that starts anew (see flambeau_torch)."""

import sys

from flambeau_torch.command import main

if __name__ == "__main__":
    sys.exit(main())
