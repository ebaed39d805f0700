"""JSON files of Sapling and MASP, with bytes in hex, in the order of the protocol.

| file | fields |
|---|---|
| a note of an Output | address, value, rseed or rcm; asset (MASP); possibly rcv, and esk with rcm |
| a Spend | ak, nsk, note (without rcv and esk), position, path; possibly alpha, rcv, anchor |
| a Convert | weights by asset, value, position, path; possibly rcv, anchor |
| a transaction | lists spends, outputs, converts of these; see `quod.zcash.files.transaction` |
| a description | the fields of its statement, and proof |
| descriptions | one, a list, or an object with lists spends, outputs and converts |
| a bundle | such an object with signatures; see `quod.zcash.files.bundle` |

A number is a JSON number or the text of its digits. `path` has 32 siblings, the leaf's first. The
anchor is by default the root of the path.
"""
