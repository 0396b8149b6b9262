"""The JDBC sink."""
