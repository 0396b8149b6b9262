"""The election of the Master that leads: `elector` is the contract, the other modules implement it.

`tests/conformance/test_elector.py` holds each of them to it.
"""
