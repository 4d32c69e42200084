"""Process groups, ranks, DDP and FSDP2."""
