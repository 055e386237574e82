"""What a command does in a session: talks, answers, decides, watches, stops."""
