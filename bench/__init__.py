"""Speed and size, measured beside a yardstick in the same run; writes RESULTS.md."""
