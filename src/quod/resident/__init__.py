"""The resident helper: a process that keeps opened keys, for commands of the same user.

`quod.resident.client` is all that a command imports that finds a helper.
"""
