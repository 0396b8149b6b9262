"""From the text of a pipeline file to the model: YAML or TOML, every fault with its place, paths made absolute."""
