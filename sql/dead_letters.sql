-- Events that can never be published, whole: every column as text.
CREATE TABLE IF NOT EXISTS {{.DeadLetters}} (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot        text        NOT NULL,
    position    text        NOT NULL,               -- as in the record header
    commit_lsn  pg_lsn      NOT NULL,
    commit_time timestamptz NOT NULL,
    table_name  text        NOT NULL,               -- as in SQL
    event_id    text,
    topic       text,                               -- NULL if there is no valid one
    reason      text        NOT NULL,
    error       text        NOT NULL,
    columns     json        NOT NULL,               -- name: text, or null
    state       text        NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'retried', 'discarded')),
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (slot, position)
);
