"""What peers take for the same works, each in an environment of its own."""
