-- The outbox. The application inserts in the transaction of its own change;
-- nothing ever has to be updated or polled here.
CREATE TABLE IF NOT EXISTS {{.Table}} (
    id             {{.ID}},
    aggregate_type text        NOT NULL,
    aggregate_id   text        NOT NULL,
    event_type     text        NOT NULL,
    payload        jsonb,
    metadata       jsonb,
    created_at     timestamptz NOT NULL DEFAULT now()
);
