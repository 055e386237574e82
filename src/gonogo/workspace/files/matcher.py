"""A regular expression in its own process, which can be killed if it takes too long.

Run as a script. It reads the pattern as one line of JSON, then for each text a line with its number
of bytes, followed by the bytes. It answers each text with the numbers of the matching lines, as one
line of JSON. It opens no files and imports nothing of gonogo.
"""

import json
import re
import sys


def main() -> None:
    """Answer until the input ends."""
    first = json.loads(sys.stdin.buffer.readline())
    pattern = re.compile(first["pattern"])
    while header := sys.stdin.buffer.readline():
        text = sys.stdin.buffer.read(int(header)).decode("utf-8", "replace")
        lines = text.split("\n")
        found = [number for number, line in enumerate(lines, start=1) if pattern.search(line)]
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
