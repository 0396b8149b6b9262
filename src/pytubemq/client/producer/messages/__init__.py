"""Messages between submit and receipt: their checks, their encoding, and the units that a sender carries."""
