"""The cluster's metadata as one declaration: exported, compared with the records, and applied to them in one step."""
