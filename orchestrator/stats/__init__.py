"""Statistics from raw times to figures: values in, values out, plain Python."""
