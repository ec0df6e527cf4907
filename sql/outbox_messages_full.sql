-- The outbox of messages, in its long form. The columns behind created_at are
-- for a polling publisher; outbox-cdc does not use them.
CREATE TABLE IF NOT EXISTS {{.Table}} (
    id             {{.ID}},
    event_type     varchar(100) NOT NULL,
    aggregate_type varchar(100) NOT NULL,
    aggregate_id   varchar(100) NOT NULL,
    payload        jsonb        NOT NULL,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    processed_at   timestamptz,
    retry_count    integer      NOT NULL DEFAULT 0,
    last_error     text
);
