"""torch.distributed._composable: an older place of fully_shard."""
