"""The loop: ask the model, gate and run its tool calls, record each, until done or parked.

Promises: a reply is stored before any of its calls runs; every call has exactly one result; a call
is `started` in the database before anything is spawned; what a person approved is what runs, or it
does not run; a call that may have had its effect is never repeated before a person is asked.
"""

from gonogo.execution.agent.call_log import (
    CallKind,
    Interventions,
    doubt,
    drop_call,
    end_call,
    open_control,
)
from gonogo.execution.agent.compaction import Contexts
from gonogo.execution.agent.context import first_record, parts_of
from gonogo.execution.agent.conversation import (
    NOBODYS,
    Briefings,
    Owner,
    Speak,
    Thread,
    compose,
    facts_of,
    fields_from,
    role_of,
)
from gonogo.execution.agent.executor import (
    CLIENT_CALL,
    UNANSWERED,
    CallAsked,
    Hands,
    ReadyCall,
)
from gonogo.execution.agent.file_changes import Traces, Watches
from gonogo.execution.agent.gate import (
    ConversationGrants,
    Gate,
    Gated,
    Giving,
    given_in,
    given_to,
    make_session_rule,
    nothing_given,
    remove_session_rule,
)
from gonogo.execution.agent.inbox import Inbox, is_unheard, steer
from gonogo.execution.agent.loop import (
    Finished,
    Handed,
    Loop,
    NextStep,
    Resting,
    keep_reply,
    take_up,
    taken_up,
)
from gonogo.execution.agent.means import Means
from gonogo.execution.agent.models import Meter, ModelPool, ModelWait, is_taped, name_of_limit
from gonogo.execution.agent.profiles import (
    EXPLORER,
    MODEL,
    Profile,
    load_profiles,
    model_profile,
    runtime_profile,
)
from gonogo.execution.agent.questions import explained

__all__ = [
    "CLIENT_CALL",
    "EXPLORER",
    "MODEL",
    "NOBODYS",
    "UNANSWERED",
    "Briefings",
    "CallAsked",
    "CallKind",
    "Contexts",
    "ConversationGrants",
    "Finished",
    "Gate",
    "Gated",
    "Giving",
    "Handed",
    "Hands",
    "Inbox",
    "Interventions",
    "Loop",
    "Means",
    "Meter",
    "ModelPool",
    "ModelWait",
    "NextStep",
    "Owner",
    "Profile",
    "ReadyCall",
    "Resting",
    "Speak",
    "Thread",
    "Traces",
    "Watches",
    "compose",
    "doubt",
    "drop_call",
    "end_call",
    "explained",
    "facts_of",
    "fields_from",
    "first_record",
    "given_in",
    "given_to",
    "is_taped",
    "is_unheard",
    "keep_reply",
    "load_profiles",
    "make_session_rule",
    "model_profile",
    "name_of_limit",
    "nothing_given",
    "open_control",
    "parts_of",
    "remove_session_rule",
    "role_of",
    "runtime_profile",
    "steer",
    "take_up",
    "taken_up",
]
