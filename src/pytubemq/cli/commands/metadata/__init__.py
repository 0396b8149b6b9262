"""Commands on the cluster's metadata as one file: export, import, diff, apply."""
