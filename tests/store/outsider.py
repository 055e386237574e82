"""A program that writes into a database by its own means, as another process may.

Usage: outsider.py URL. For each line of SQL it says `done` when that is committed.
"""

import os
import sys

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError


def main(url: str) -> None:
    """Write what comes until nothing comes any more."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    for line in sys.stdin:
        while not is_written(engine, line):
            pass
        os.write(1, b"done\n")


def is_written(engine: Engine, line: str) -> bool:
    """Write it. False: of two that waited for each other, this one is to begin again."""
    try:
        with engine.begin() as conn:
            conn.execute(text(line))
    except OperationalError as error:
        if "deadlock" not in str(error):
            raise
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1])
