"""Reading exact ranges from Java Brokers, which know neither ranges nor offsets of messages.

    ends      where partitions begin and end
    reading   a range in pieces, through restarts, deletions and flow control; decides by `cut` where it ends
    cut       the one decision that needs no Broker: where in what a fetch brought a range ends
    group     under which group names a task reads
    access    one connection to a cluster per process
    ranges    a range as Arrow batches
    guarantee what all this promises, in words

`docs/design/spark-java-brokers.md` says why it is so.
"""
