"""Messages between submit and receipt: their checks, their encoding, and the record batches they are sent in."""
