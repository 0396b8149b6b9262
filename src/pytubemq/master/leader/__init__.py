"""How a Master becomes the leader, and how its records move from one store to another."""
