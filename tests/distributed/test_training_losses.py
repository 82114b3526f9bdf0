"""A hundred steps of DistributedDataParallel: the losses that PyTorch printed, and those of one process on all of the batch.

training_losses.py has the models, and wrote recorded/training_losses.json under PyTorch with Gloo and two processes.
"""

import json
from pathlib import Path

import pytest
from distributed import training_losses
from distributed.ranks import needs_mpi, on_ranks

from flambeau import nn

pytestmark = needs_mpi
RECORDED = json.loads((Path(__file__).parent / "recorded" / "training_losses.json").read_text())


def trained(rank, size, synchronised):
    def wrap(model):
        return nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model) if synchronised else model)

    return {kind: training_losses.losses(kind, rank, size, wrap) for kind in RECORDED}


def test_losses_are_those_of_pytorch_on_gloo():
    for rank, found in enumerate(on_ranks(2, trained, 2, False, seconds=60)):
        for kind, everyone in RECORDED.items():
            assert found[kind] == pytest.approx(everyone[rank], abs=5e-5), (kind, rank)  # to four digits


@pytest.fixture(scope="module")
def alone():
    return {kind: training_losses.losses(kind, 0, 1) for kind in RECORDED}


@pytest.mark.parametrize("size", [2, 3, 4])
def test_losses_on_ranks_average_to_those_of_one_process(size, alone):
    ranks = on_ranks(size, trained, size, True, seconds=60)
    for kind, wanted in alone.items():
        means = [sum(step) / size for step in zip(*(found[kind] for found in ranks), strict=True)]
        assert means == pytest.approx(wanted, abs=5e-5), kind
