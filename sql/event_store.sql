-- An event store that is its own outbox: what is appended to a stream is
-- published. The constraint is what makes an append to a stale version fail.
CREATE TABLE IF NOT EXISTS {{.Table}} (
    id             bigserial    PRIMARY KEY,
    stream_id      varchar(200) NOT NULL,
    stream_version bigint       NOT NULL,
    event_type     varchar(100) NOT NULL,
    event_data     jsonb        NOT NULL,
    metadata       jsonb,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    UNIQUE (stream_id, stream_version)
);
