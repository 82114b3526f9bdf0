"""torch.distributed.checkpoint.format_utils: checkpoints of several ranks as files of torch.save, and back. Also a command.

python -m flambeau.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE
python -m flambeau.distributed.checkpoint.format_utils torch_to_dcp FILE FOLDER
"""

from __future__ import annotations

import argparse
import os
from enum import Enum

import flambeau as torch
from flambeau.distributed.checkpoint.filesystem import FileSystemReader
from flambeau.distributed.checkpoint.state_dict_loader import whole_state_dict
from flambeau.distributed.checkpoint.state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


class FormatMode(Enum):
    """The command's directions."""

    TORCH_TO_DCP = "torch_to_dcp"
    DCP_TO_TORCH = "dcp_to_torch"


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]) -> None:
    """Writes what a checkpoint's folder holds into one file. In one process; the whole has to fit into memory."""
    torch.save(whole_state_dict(FileSystemReader(dcp_checkpoint_dir)), torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]) -> None:
    """Writes what a file of torch.save holds as a checkpoint's folder. The file is trusted: it may name any object."""
    state_dict = torch.load(torch_save_path, weights_only=False)
    save(state_dict, checkpoint_id=dcp_checkpoint_dir, no_dist=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=[mode.value for mode in FormatMode])
    parser.add_argument("src")
    parser.add_argument("dst")
    given = parser.parse_args()
    convert = torch_save_to_dcp if given.mode == FormatMode.TORCH_TO_DCP.value else dcp_to_torch_save
    print(f"Converting checkpoint from {given.src} to {given.dst} using method: '{given.mode}'")
    convert(given.src, given.dst)


if __name__ == "__main__":
    main()
