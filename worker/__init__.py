"""The process of a launch: measures one cell, then ends. Imports torch and protocol, never orchestrator."""
