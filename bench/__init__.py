"""Speed and size, measured beside a yardstick in the same run. `python -m bench` writes RESULTS.md."""
