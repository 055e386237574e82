"""Carrying a rollback out: all of it or nothing, and never over what somebody else wrote.

Everything new is first written and brought to the disk in one folder beside the files. Then each
path is changed by renaming, and what a rename took out is compared with what the plan had seen:
if it is something else, it goes back, and so does all that was done before. Nothing is deleted
until every path is changed. A note of what is going on lies in the same folder, so that
`recover` can clear up after a crash without losing a byte that is not gonogo's.
"""

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from gonogo.domain.canonical import content_hash
from gonogo.domain.errors import ToolFailed
from gonogo.workspace._beneath import best_opener, exchange, open_component, opened, rename_new
from gonogo.workspace._failures import told
from gonogo.workspace._git import Git, outlet
from gonogo.workspace._index import lock
from gonogo.workspace._plan import Restore, RestoreItem
from gonogo.workspace._recover import NOTE, STAGE, Noted, clear, note, temporary
from gonogo.workspace._scan import root_opened
from gonogo.workspace._standing import Standing, look, parent_opened
from gonogo.workspace._states import FileState, parents
from gonogo.workspace._workspace import Workspace
