"""What burn-in verifies with: digests, exact integers, evidence of a mismatch, and the faults that prove all of it."""
