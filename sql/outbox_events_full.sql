-- The outbox with the columns and the index that a polling publisher needs, for
-- services that have one beside. outbox-cdc does not use them.
CREATE TABLE IF NOT EXISTS {{.Table}} (
    id             {{.ID}},
    aggregate_type varchar(100) NOT NULL,
    aggregate_id   varchar(100) NOT NULL,
    event_type     varchar(100) NOT NULL,
    payload        jsonb        NOT NULL,
    metadata       jsonb,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    published_at   timestamptz,
    retry_count    integer      NOT NULL DEFAULT 0,
    status         varchar(20)  NOT NULL DEFAULT 'PENDING'
);
CREATE INDEX IF NOT EXISTS {{.Index "_pending_idx"}} ON {{.Table}} (status, created_at) WHERE status = 'PENDING';
