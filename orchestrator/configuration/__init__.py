"""What a person asked for: read, checked, and resolved to one configuration."""
