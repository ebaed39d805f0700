"""Types of quantised blocks, one file each: reference, kernel decoders and measured figures.

`table.QUANTISED_TYPES` lists them. Kernels and plans read a row of that table and compare no names.
"""
