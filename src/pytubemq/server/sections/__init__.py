"""The sections of the settings file, one a file, and the form of the addresses in them."""
