"""Gets jobs run and recovers them, and wakes those who follow a session.

Promises: a job of one kind and key runs at most once at a time in a process; a job that comes while
its twin runs, runs after it; a stop ends what the job spawned; timers fire when they are due, with
one sleeping task for all of them.
"""

from gonogo.dispatch.event_bus import Follower, Hub
from gonogo.dispatch.jobs import AGAIN, LocalDispatcher

__all__ = ["AGAIN", "Follower", "Hub", "LocalDispatcher"]
