"""gonogo: a durable agent runtime for coding work that a person governs."""

__version__ = "0.1.0"
