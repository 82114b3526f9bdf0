"""Tensors in a folder: storages with equal bytes are one file, and views come back on one memory."""

import os

import pytest

import flambeau as torch
from flambeau.utils._content_store import ContentStoreReader, ContentStoreWriter, hash_storage


def test_tensors_come_back_with_what_they_shared(tmp_path):
    writer = ContentStoreWriter(str(tmp_path))
    x = torch.arange(4.0)
    writer.write_tensor("layers/x", x)
    writer.write_tensor("rows", x.view(2, 2).t())
    x.data.add_(1)
    writer.write_tensor("later", x)
    writer.write_tensor("again", torch.arange(4.0).requires_grad_())
    assert len(os.listdir(tmp_path / "storages")) == 2
    reader = ContentStoreReader(str(tmp_path))
    first, rows, later = (reader.read_tensor(name) for name in ("layers/x", "rows", "later"))
    assert first.tolist() == [0, 1, 2, 3] and rows.tolist() == [[0, 2], [1, 3]] and later.tolist() == [1, 2, 3, 4]
    assert rows.untyped_storage() is first.untyped_storage() is not later.untyped_storage()
    assert reader.read_tensor("again").requires_grad
    apart = ContentStoreReader(str(tmp_path), cache=False)
    assert apart.read_tensor("rows").data_ptr() != apart.read_tensor("layers/x").data_ptr()
    with pytest.raises(FileNotFoundError):
        reader.read_tensor("nothing")


def test_names_are_of_the_bytes():
    one, other = torch.ones(2).untyped_storage(), torch.tensor(2).untyped_storage()
    assert hash_storage(one) == hash_storage(torch.ones(2).untyped_storage(), stable_hash=True) != hash_storage(other)
