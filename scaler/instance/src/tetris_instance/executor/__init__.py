"""Executors: many models on one GPU, whose weights come and go by leases of the node's GPU mirror."""
