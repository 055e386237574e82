"""Files within a workspace: opened safely, read, written, listed and searched."""
