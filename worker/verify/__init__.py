"""Verification of burn-in: digests, exact integers, evidence of a mismatch, and the faults that prove all of it."""
