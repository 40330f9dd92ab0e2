"""The child: one process, one cell, then it ends. Imports torch and protocol, never orchestrator."""
