"""The operations of the queue as functions of a transaction, with the same SQL for every store.

Operations take lists, so that concurrent calls share a commit. They return an outcome for each
element: a value, or the error for its caller. Any other exception rolls the transaction back. Rows
of the table `part` are locked before rows of `job`.
"""
