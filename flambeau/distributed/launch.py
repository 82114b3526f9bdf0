"""torch.distributed.launch: the older command that starts the processes of a training, with torchrun's options.

Unless --use-env is given, programs get their local rank as an argument too. Stands on run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from flambeau.distributed import run as _run
from flambeau.distributed.run import get_args_parser, run

__all__ = ["get_args_parser", "launch", "main", "parse_args", "run"]


def parse_args(args: Sequence[str] | None = None) -> argparse.Namespace:
    """The command's options."""
    parser = get_args_parser()
    parser.prog = "launch"
    parser.add_argument(
        "--use-env",
        "--use_env",
        default=False,
        action="store_true",
        dest="use_env",
        help="programs read LOCAL_RANK, as they do with torchrun",
    )
    return parser.parse_args(args)


def launch(args: argparse.Namespace) -> None:
    """Start the processes."""
    if args.no_python and not args.use_env:
        raise ValueError("When using the '--no-python' flag, you must also set the '--use-env' flag.")
    run(args, local_rank_argument=not args.use_env)


def main(args: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parsed = parse_args(args)
    return _run.guarded(lambda: launch(parsed))


if __name__ == "__main__":
    sys.exit(main())
