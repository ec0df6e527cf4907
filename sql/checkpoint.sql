-- One row per slot, to detect that the slot was moved or lost. It is never
-- read as a start position: that is the slot's alone.
CREATE TABLE IF NOT EXISTS {{.Checkpoint}} (
    slot        text        PRIMARY KEY,
    confirmed   pg_lsn      NOT NULL,
    commit_time timestamptz,                        -- of the last event confirmed
    system_id   text        NOT NULL,
    timeline    integer     NOT NULL,
    session     text        NOT NULL,
    clean       boolean     NOT NULL,               -- the session ended in order
    tables      text[]      NOT NULL,               -- what the slot has streamed
    updated_at  timestamptz NOT NULL DEFAULT now()
);
