"""torch.distributed.elastic.agent: the agents of nodes that programs make themselves; names to import."""
