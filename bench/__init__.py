"""Measurements of pytubemq, alone and beside its peers. Nothing in the package imports them."""
