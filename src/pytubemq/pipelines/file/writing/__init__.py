"""The model and the table of keys written out: the normal form, the words of a file, the JSON schema, templates."""
