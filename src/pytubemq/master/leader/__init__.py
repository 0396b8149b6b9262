"""The way to become the leader, and the move of a Master's records from one store to another."""
