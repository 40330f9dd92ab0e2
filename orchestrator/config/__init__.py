"""Options, configuration files, and what ships in configs/."""
