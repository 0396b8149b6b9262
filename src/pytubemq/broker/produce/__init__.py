"""Handlers of sends."""
