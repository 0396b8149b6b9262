"""The Master's store of what must outlive it: Brokers, topics, their deployment, and the cluster's settings.

`port` is the contract, `sqlite`, `postgres` and `memory` implement it; `tests/conformance/test_metastore.py` tests each
of them against it.
"""
