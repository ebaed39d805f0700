"""What the queue does, as functions of a transaction: the same statements for every store.

Operations take lists, so that what arrives at the same time shares a commit, and give for each
element its outcome: a value, or the error that its caller gets. Whatever else they raise undoes the
transaction. Rows are locked in the order part, job.
"""
