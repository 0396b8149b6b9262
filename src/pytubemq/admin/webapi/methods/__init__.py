"""The methods, one file for each subject; each file exports `METHODS`."""
