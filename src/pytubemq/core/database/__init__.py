"""The database that may keep a Master's records: how it is named, and what its errors mean."""
