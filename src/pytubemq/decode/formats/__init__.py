"""The formats of records, one to a file. Each makes columns of a binary array and reports which records it cannot."""
