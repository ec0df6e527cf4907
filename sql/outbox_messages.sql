-- The outbox of messages, in its short form. processed_at is for a polling
-- publisher; outbox-cdc does not use it.
CREATE TABLE IF NOT EXISTS {{.Table}} (
    id           {{.ID}},
    event_type   varchar(100) NOT NULL,
    aggregate_id varchar(100) NOT NULL,
    payload      jsonb        NOT NULL,
    created_at   timestamptz  NOT NULL DEFAULT now(),
    processed_at timestamptz
);
