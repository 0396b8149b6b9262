"""The methods, one file for each thing that they are about; each file exports `METHODS`."""
