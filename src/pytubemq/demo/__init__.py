"""The main job on real data: flights through a cluster into Spark and onto disk, and the proof that none is missing."""
