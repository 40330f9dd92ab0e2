"""From journal and result files to figures: outcomes, sibling GPUs, attribution."""
