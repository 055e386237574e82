"""The commands and their options, and nothing heavy: what one does is imported when it runs."""
