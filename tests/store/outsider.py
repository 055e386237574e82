"""A program that writes into a database by its own means, as another process may.

Usage: outsider.py URL. For each line of SQL it says `done` when that is committed.
"""

import os
import sys

from sqlalchemy import create_engine, text


def main(url: str) -> None:
    """Write what comes until nothing comes any more."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    for line in sys.stdin:
        with engine.begin() as conn:
            conn.execute(text(line))
        os.write(1, b"done\n")


if __name__ == "__main__":
    main(sys.argv[1])
