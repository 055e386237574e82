"""The loop: ask the model, gate and run its tool calls, record each, until done or parked.

Promises: a reply is stored before any of its calls runs; every call has exactly one result; a call
is `started` in the database before anything is spawned; what a person approved is what runs, or it
does not run; a call that may have had its effect is never repeated unasked.
"""

from gonogo.agents._calls import CallKind, Interventions
from gonogo.agents._explained import explained
from gonogo.agents._gate import Gate, Gated
from gonogo.agents._given import Given, Giving, given_in, nothing_given
from gonogo.agents._loop import Finished, Handed, Loop, Resting, keep_reply
from gonogo.agents._means import Means
from gonogo.agents._meter import Meter
from gonogo.agents._nobody import model_profile, runtime_profile
from gonogo.agents._profiles import MODEL, RUNTIME, Profile, load_profiles
from gonogo.agents._record import doubt, drop_call, end_call, open_control
from gonogo.agents._remote import remote_access
from gonogo.agents._run import CLIENT_CALL, UNANSWERED, Hands
from gonogo.agents._session_rules import make_session_rule, remove_session_rule
from gonogo.agents._thread import Speak, Thread
from gonogo.agents._traces import Traces
from gonogo.agents.watches import Watches

__all__ = [
    "CLIENT_CALL",
    "MODEL",
    "RUNTIME",
    "UNANSWERED",
    "CallKind",
    "Finished",
    "Gate",
    "Gated",
    "Given",
    "Giving",
    "Handed",
    "Hands",
    "Interventions",
    "Loop",
    "Means",
    "Meter",
    "Profile",
    "Resting",
    "Speak",
    "Thread",
    "Traces",
    "Watches",
    "doubt",
    "drop_call",
    "end_call",
    "explained",
    "given_in",
    "keep_reply",
    "load_profiles",
    "make_session_rule",
    "model_profile",
    "nothing_given",
    "open_control",
    "remote_access",
    "remove_session_rule",
    "runtime_profile",
]
