"""torch.distributed.elastic: processes of a training that come and go; names to import."""
