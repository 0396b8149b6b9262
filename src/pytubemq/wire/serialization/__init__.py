"""Message classes to protobuf bytes and back; the only use of the protobuf library."""
