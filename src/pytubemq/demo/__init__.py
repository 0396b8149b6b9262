"""The main job on real data: flights through a cluster into Spark and onto disk, and a proof that none is missing."""
