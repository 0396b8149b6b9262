"""The Master's store of what must outlive it: Brokers, topics, their deployment, and the cluster's settings.

`port` is the contract, `sqlite` and `memory` fulfil it; `tests/conformance/test_metastore.py` holds both to it.
"""
