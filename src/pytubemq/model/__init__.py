"""Values that all rooms share: frozen, slotted, without behaviour that could fail."""
