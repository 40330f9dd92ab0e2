"""Verification in a burn-in: a device computes for hours, and each output is compared with the right one.

product: of two matrices, the work that is verified. digest: 64-bit checksum of an output (digest.py). mismatch: an
output that is wrong. injected fault: one that gpubench causes itself (`--inject`), to prove that it is found.
"""
