-- The tables of schema 0003, as the code of 7adb9e1 made them; `older.py` makes them of it. On SQLite
-- a number is an INTEGER, whatever its size, and each table is STRICT.
CREATE TABLE answers (
    principal_id TEXT NOT NULL,
    key TEXT NOT NULL,
    request_digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_answers PRIMARY KEY (principal_id, key)
);
CREATE TABLE audit (
    chain TEXT NOT NULL,
    seq INTEGER NOT NULL,
    ts TEXT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    details TEXT NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    CONSTRAINT pk_audit PRIMARY KEY (chain, seq)
);
CREATE TABLE chains (
    chain TEXT NOT NULL,
    audit_seq INTEGER NOT NULL,
    audit_hash TEXT NOT NULL,
    CONSTRAINT pk_chains PRIMARY KEY (chain)
);
CREATE TABLE principals (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_principals PRIMARY KEY (id)
);
CREATE TABLE sessions (
    id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    title TEXT,
    workspace TEXT NOT NULL,
    locale TEXT,
    spoken TEXT NOT NULL,
    tool_host TEXT NOT NULL,
    agent TEXT NOT NULL,
    active_plan_id TEXT,
    last_seq INTEGER NOT NULL,
    audit_seq INTEGER NOT NULL,
    audit_hash TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    CONSTRAINT pk_sessions PRIMARY KEY (id)
);
CREATE INDEX ix_sessions_principal_id_created_at ON sessions (principal_id, created_at);
CREATE TABLE timers (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    run_at TEXT NOT NULL,
    CONSTRAINT pk_timers PRIMARY KEY (kind, key)
);
CREATE INDEX ix_timers_run_at ON timers (run_at);
CREATE TABLE approvals (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    details TEXT NOT NULL,
    reason TEXT NOT NULL,
    digest TEXT NOT NULL,
    status TEXT NOT NULL,
    turn_id TEXT,
    plan_id TEXT,
    revision INTEGER,
    subtask_id TEXT,
    call_id TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    decided_by TEXT,
    decided_at TEXT,
    decision TEXT,
    CONSTRAINT pk_approvals PRIMARY KEY (id),
    CONSTRAINT fk_approvals_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE INDEX ix_approvals_call_id ON approvals (call_id);
CREATE INDEX ix_approvals_plan_id ON approvals (plan_id);
CREATE INDEX ix_approvals_session_id_status ON approvals (session_id, status);
CREATE TABLE events (
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    ts TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    CONSTRAINT pk_events PRIMARY KEY (session_id, seq),
    CONSTRAINT fk_events_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE TABLE messages (
    id BIGSERIAL NOT NULL,
    session_id TEXT NOT NULL,
    thread TEXT NOT NULL,
    turn_id TEXT,
    agent TEXT,
    body TEXT NOT NULL,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_messages PRIMARY KEY (id),
    CONSTRAINT fk_messages_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE INDEX ix_messages_session_id_thread_id ON messages (session_id, thread, id);
CREATE TABLE plans (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT,
    goal TEXT NOT NULL,
    original_task TEXT NOT NULL,
    status TEXT NOT NULL,
    revision INTEGER NOT NULL,
    digest TEXT NOT NULL,
    auto_approve_tools INTEGER NOT NULL,
    max_parallel INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    approved_at TEXT,
    started_at TEXT,
    finished_at TEXT,
    feedback TEXT,
    CONSTRAINT pk_plans PRIMARY KEY (id),
    CONSTRAINT fk_plans_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE INDEX ix_plans_session_id ON plans (session_id);
CREATE INDEX ix_plans_status ON plans (status);
CREATE TABLE tokens (
    id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    name TEXT NOT NULL,
    role INTEGER NOT NULL,
    secret_hash TEXT NOT NULL,
    created_at TEXT NOT NULL,
    revoked_at TEXT,
    CONSTRAINT pk_tokens PRIMARY KEY (id),
    CONSTRAINT fk_tokens_principal_id FOREIGN KEY(principal_id) REFERENCES principals (id),
    CONSTRAINT uq_tokens_secret_hash UNIQUE (secret_hash)
);
CREATE TABLE tool_calls (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    thread TEXT NOT NULL,
    turn_id TEXT,
    plan_id TEXT,
    revision INTEGER,
    subtask_id TEXT,
    position INTEGER NOT NULL,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    tool_class TEXT NOT NULL,
    arguments TEXT NOT NULL,
    proposed_arguments TEXT,
    base_hashes TEXT NOT NULL,
    effects TEXT NOT NULL,
    digest TEXT NOT NULL,
    status TEXT NOT NULL,
    verdict TEXT NOT NULL,
    approval_id TEXT,
    retry_of TEXT,
    result TEXT,
    error TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    CONSTRAINT pk_tool_calls PRIMARY KEY (id),
    CONSTRAINT fk_tool_calls_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE INDEX ix_tool_calls_session_id_thread_position ON tool_calls (session_id, thread, position);
CREATE INDEX ix_tool_calls_status ON tool_calls (status);
CREATE TABLE turns (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    content TEXT NOT NULL,
    agent TEXT NOT NULL,
    status TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    finished_at TEXT,
    CONSTRAINT pk_turns PRIMARY KEY (id),
    CONSTRAINT fk_turns_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
    CONSTRAINT uq_turns_session_id_position UNIQUE (session_id, position)
);
CREATE INDEX ix_turns_status ON turns (status);
CREATE TABLE grants (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    subtask_id TEXT NOT NULL,
    scope TEXT,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    ended_at TEXT,
    ended_because TEXT,
    CONSTRAINT pk_grants PRIMARY KEY (id),
    CONSTRAINT fk_grants_plan_id FOREIGN KEY(plan_id) REFERENCES plans (id),
    CONSTRAINT fk_grants_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE INDEX ix_grants_plan_id_subtask_id ON grants (plan_id, subtask_id);
CREATE INDEX ix_grants_session_id ON grants (session_id);
CREATE TABLE plan_revisions (
    plan_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    digest TEXT NOT NULL,
    goal TEXT NOT NULL,
    subtasks TEXT NOT NULL,
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    CONSTRAINT pk_plan_revisions PRIMARY KEY (plan_id, number),
    CONSTRAINT fk_plan_revisions_plan_id FOREIGN KEY(plan_id) REFERENCES plans (id)
);
CREATE TABLE subtasks (
    key TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    subtask_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    status TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    not_before TEXT,
    started_at TEXT,
    active_since TEXT,
    finished_at TEXT,
    result TEXT,
    error TEXT,
    reason TEXT,
    CONSTRAINT pk_subtasks PRIMARY KEY (key),
    CONSTRAINT fk_subtasks_plan_id FOREIGN KEY(plan_id) REFERENCES plans (id)
);
CREATE INDEX ix_subtasks_standing ON subtasks (plan_id, revision, status, not_before, epoch, attempt, subtask_id);
ALTER TABLE plans ADD COLUMN pause_reason TEXT;
ALTER TABLE plans ADD COLUMN paused_until TEXT;
ALTER TABLE plans ADD COLUMN replans INTEGER DEFAULT '0' NOT NULL;
ALTER TABLE plans ADD COLUMN replan TEXT;
ALTER TABLE plans ADD COLUMN floor INTEGER DEFAULT '0' NOT NULL;
ALTER TABLE plans ADD COLUMN budget TEXT;
ALTER TABLE tool_calls ADD COLUMN tree TEXT;
ALTER TABLE subtasks ADD COLUMN declined INTEGER DEFAULT '0' NOT NULL;
ALTER TABLE subtasks ADD COLUMN worker TEXT;
ALTER TABLE subtasks ADD COLUMN type TEXT;
ALTER TABLE subtasks ADD COLUMN worked_ms BIGINT DEFAULT '0' NOT NULL;
DROP INDEX ix_subtasks_standing;
CREATE INDEX ix_subtasks_standing ON subtasks (plan_id, revision, status, not_before, epoch, attempt, declined, subtask_id);
CREATE TABLE checkpoints (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    subtask_id TEXT,
    attempt INTEGER NOT NULL,
    reason TEXT NOT NULL,
    standings TEXT NOT NULL,
    event_seq INTEGER NOT NULL,
    last_change BIGINT NOT NULL,
    tree TEXT,
    hash TEXT NOT NULL,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_checkpoints PRIMARY KEY (id),
    CONSTRAINT fk_checkpoints_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
    CONSTRAINT fk_checkpoints_plan_id FOREIGN KEY(plan_id) REFERENCES plans (id)
);
CREATE INDEX ix_checkpoints_plan_id_created_at ON checkpoints (plan_id, created_at);
CREATE INDEX ix_checkpoints_plan_id_revision_subtask_id_attempt ON checkpoints (plan_id, revision, subtask_id, attempt);
CREATE TABLE file_changes (
    id BIGSERIAL NOT NULL,
    session_id TEXT NOT NULL,
    plan_id TEXT,
    revision INTEGER,
    subtask_id TEXT,
    call_id TEXT,
    workspace TEXT NOT NULL,
    path TEXT NOT NULL,
    origin TEXT NOT NULL,
    "before" TEXT,
    "after" TEXT,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_file_changes PRIMARY KEY (id),
    CONSTRAINT fk_file_changes_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE INDEX ix_file_changes_plan_id_id ON file_changes (plan_id, id);
CREATE INDEX ix_file_changes_workspace_path_id ON file_changes (workspace, path, id);
CREATE TABLE model_requests (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    plan_id TEXT,
    subtask_id TEXT,
    thread TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    status TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_micros BIGINT NOT NULL,
    duration_ms INTEGER,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_model_requests PRIMARY KEY (id),
    CONSTRAINT fk_model_requests_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE INDEX ix_model_requests_plan_id ON model_requests (plan_id);
CREATE INDEX ix_model_requests_session_id ON model_requests (session_id);
ALTER TABLE plans ADD COLUMN again TEXT;
ALTER TABLE plans ADD COLUMN "rollback" TEXT;
ALTER TABLE plans ADD COLUMN revising TEXT;
ALTER TABLE plans ADD COLUMN asked_by TEXT;
ALTER TABLE checkpoints ADD COLUMN swept_at TEXT;
ALTER TABLE principals ADD COLUMN sight TEXT;
ALTER TABLE turns ADD COLUMN principal_id TEXT;
ALTER TABLE approvals ADD COLUMN requested_by TEXT;
ALTER TABLE approvals ADD COLUMN review TEXT;
ALTER TABLE approvals ADD COLUMN group_key TEXT;
ALTER TABLE approvals ADD COLUMN escalated_at TEXT;
CREATE INDEX ix_approvals_group_key ON approvals (group_key);
CREATE INDEX ix_audit_ts_chain_seq ON audit (ts, chain, seq);
CREATE TABLE votes (
    approval_id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    name TEXT NOT NULL,
    ruling TEXT NOT NULL,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_votes PRIMARY KEY (approval_id, principal_id),
    CONSTRAINT fk_votes_approval_id FOREIGN KEY(approval_id) REFERENCES approvals (id)
);
CREATE TABLE comments (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    subtask_id TEXT,
    author_id TEXT NOT NULL,
    author TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at TEXT NOT NULL,
    answer TEXT,
    answered_revision INTEGER,
    answered_at TEXT,
    CONSTRAINT pk_comments PRIMARY KEY (id),
    CONSTRAINT fk_comments_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
    CONSTRAINT fk_comments_plan_id FOREIGN KEY(plan_id) REFERENCES plans (id)
);
CREATE INDEX ix_comments_plan_id_created_at ON comments (plan_id, created_at);
CREATE TABLE session_rules (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    rule TEXT NOT NULL,
    made_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    ended_at TEXT,
    CONSTRAINT pk_session_rules PRIMARY KEY (id),
    CONSTRAINT fk_session_rules_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
    CONSTRAINT uq_session_rules_session_id_position UNIQUE (session_id, position)
);
CREATE TABLE links (
    id TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    name TEXT NOT NULL,
    role INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    used_at TEXT,
    digest TEXT NOT NULL,
    made_by TEXT NOT NULL,
    revoked_at TEXT,
    CONSTRAINT pk_links PRIMARY KEY (id),
    CONSTRAINT fk_links_approval_id FOREIGN KEY(approval_id) REFERENCES approvals (id)
);
CREATE INDEX ix_links_approval_id ON links (approval_id);
CREATE TABLE deliveries (
    id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    hook TEXT NOT NULL,
    event TEXT NOT NULL,
    status TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    body TEXT NOT NULL,
    error TEXT,
    created_at TEXT NOT NULL,
    not_before TEXT NOT NULL,
    finished_at TEXT,
    CONSTRAINT pk_deliveries PRIMARY KEY (id),
    CONSTRAINT fk_deliveries_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
    CONSTRAINT fk_deliveries_approval_id FOREIGN KEY(approval_id) REFERENCES approvals (id)
);
CREATE INDEX ix_deliveries_status ON deliveries (status);
CREATE INDEX ix_deliveries_approval_id ON deliveries (approval_id);
CREATE TABLE audit_floors (
    chain TEXT NOT NULL,
    seq INTEGER NOT NULL,
    hash TEXT NOT NULL,
    removed_at TEXT NOT NULL,
    CONSTRAINT pk_audit_floors PRIMARY KEY (chain)
);
CREATE TABLE sightings (
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    digest TEXT NOT NULL,
    definition TEXT NOT NULL,
    seen_at TEXT NOT NULL,
    accepted_at TEXT,
    accepted_by TEXT,
    CONSTRAINT pk_sightings PRIMARY KEY (name, position)
);
CREATE TABLE logins (
    secret_hash TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    name TEXT NOT NULL,
    role INTEGER NOT NULL,
    token_id TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    ends_at TEXT,
    CONSTRAINT pk_logins PRIMARY KEY (secret_hash),
    CONSTRAINT fk_logins_token_id FOREIGN KEY(token_id) REFERENCES tokens (id)
);
CREATE INDEX ix_logins_principal_id ON logins (principal_id);
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version (version_num) VALUES ('0003');
