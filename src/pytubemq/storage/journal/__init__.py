"""The journal: staging, group commit, checkpoints, replay and recovery."""
