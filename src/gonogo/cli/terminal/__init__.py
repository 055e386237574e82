"""What is drawn at a terminal, and what is typed there."""
