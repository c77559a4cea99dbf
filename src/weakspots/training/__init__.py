"""Pretraining: one loop for every scale, with its schedule, batches, gate statistics and checkpoints."""
