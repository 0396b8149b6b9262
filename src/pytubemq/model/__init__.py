"""The values everyone speaks in: frozen, slotted, without behaviour that could fail."""
