"""What tests start for themselves ends with them, however they end."""

import os
import select
import signal
import subprocess
import sys

from fakes.nursery import python
from fakes.until import LIMIT

MOTHER = """
import json, os, socket, sys
from pathlib import Path
from fakes.nursery import _line, _Mother

place = Path(sys.argv[1]) / "nursery"
place.with_suffix(".lock").touch()
mother = _Mother(place, _line())
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
words = ("timeit", "-n", "1", "-r", "1", "import time; time.sleep(600)")
order = {"words": words, "environment": dict(os.environ), "folder": "/"}
nothing = os.open(os.devnull, os.O_RDWR)
socket.send_fds(ours, [json.dumps(order).encode()], [nothing, nothing, nothing, os.pipe()[1]])
print(mother._bear(theirs).pid, flush=True)
sys.stdin.read()
"""


def test_what_a_nursery_has_borne_ends_when_the_nursery_is_killed(tmp_path):
    mother = subprocess.Popen(
        [sys.executable, "-c", MOTHER, str(tmp_path)], env=python(measured=False),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with mother:
        born = os.pidfd_open(int(mother.stdout.readline()))
        mother.kill()
    try:
        assert select.select([born], [], [], LIMIT)[0]
    finally:
        with open(born):
            if not select.select([born], [], [], 0)[0]:
                signal.pidfd_send_signal(born, signal.SIGKILL)
