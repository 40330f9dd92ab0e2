"""Worker: the process that measures one cell once, then ends. Imports torch and protocol, never orchestrator."""
