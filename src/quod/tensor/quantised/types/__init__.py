"""Types of quantised blocks, one file each: reference, kernel decoders and measured figures.

`table.QUANTISED_TYPES` lists them. Kernels and plans read a type's row of that table,
and never compare its name.
"""
