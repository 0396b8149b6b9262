"""Registrations of Brokers: who may register, and what a registration reports."""
