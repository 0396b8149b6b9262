"""Consumers of groups at this Broker: registrations, positions, resets remembered, flow control."""
