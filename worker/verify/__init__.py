"""Verification of burn-in: digests, exact integers, evidence of a mismatch, and injected faults to test it."""
