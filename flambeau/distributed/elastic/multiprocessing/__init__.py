"""torch.distributed.elastic.multiprocessing: starting processes and reporting their failures; names to import."""
