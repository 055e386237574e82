"""A plan as a text that a person edits, in Markdown and in YAML."""
