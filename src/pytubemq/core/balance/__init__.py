"""Balance of one group's partitions over its members: (view, fact) -> (view, actions).

`facts` and `view` are the words, `plan` says which member should have which partition, `transition` which event may be
sent now, `consistency` which consumer may join. The picture is in `docs/design/balance.md`.
"""
