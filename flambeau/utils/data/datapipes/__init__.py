"""torch.utils.data.datapipes: pipes of data sets, which PyTorch keeps for old programs; the names say what to do instead."""
