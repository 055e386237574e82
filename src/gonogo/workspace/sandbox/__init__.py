"""Commands in a box: what they may touch and reach, how long they may run, and how they end."""
