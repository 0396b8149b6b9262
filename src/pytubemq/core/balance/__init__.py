"""Who consumes what: the Master's view of one group as (view, fact) -> (view, actions).

`facts` and `view` are the words, `plan` says who should hold which partition, `transition` says what may be told to
whom now, `consistency` says who may join. The picture is in `docs/design/balance.md`.
"""
