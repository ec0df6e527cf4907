-- The outbox with the columns that a polling publisher needs, for services
-- that have one beside. outbox-cdc does not use them.
CREATE TABLE IF NOT EXISTS {{.Table}} (
    id             uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregate_type varchar(255) NOT NULL,
    aggregate_id   varchar(255) NOT NULL,
    event_type     varchar(255) NOT NULL,
    payload        jsonb,
    metadata       jsonb,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    published_at   timestamptz,
    retry_count    integer      NOT NULL DEFAULT 0,
    status         varchar(20)  NOT NULL DEFAULT 'PENDING'
);
