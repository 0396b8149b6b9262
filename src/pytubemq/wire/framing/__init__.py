"""Frames in and out of a byte stream."""
