"""Rules on the steps, their names and the tests of the file."""
