"""The rules that a pipeline keeps, one in each file, by what they demand or forbid.

A rule says what it needs (`rule.Need`) and yields faults. `registry.RULES` lists them all; `lint`, `test`, `plan`,
`dry-run` and `run` ask that one table, each as far as it can see.
"""
