"""Rules on the section `dead_letter`."""
