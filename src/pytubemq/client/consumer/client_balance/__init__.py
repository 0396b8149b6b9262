"""The consumer whose group divides the partitions itself, instead of having the Master do it.

The Master says what there is and whether it can be consumed; every member takes and leaves partitions as it decides.
`share` decides for a member that has nothing better to go by.
"""
