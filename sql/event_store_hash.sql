-- An event store that is its own outbox, in partitions. The constraint is what
-- makes an append to a stale version fail, and PostgreSQL keeps it only if the
-- partition follows from stream_id or stream_version: by hash of the stream it
-- does, by time it does not.
CREATE TABLE IF NOT EXISTS {{.Table}} (
    id             bigserial    NOT NULL,
    stream_id      varchar(200) NOT NULL,
    stream_version bigint       NOT NULL,
    event_type     varchar(100) NOT NULL,
    event_data     jsonb        NOT NULL,
    metadata       jsonb,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    UNIQUE (stream_id, stream_version)
) PARTITION BY HASH (stream_id);
{{range .Partitions -}}
CREATE TABLE IF NOT EXISTS {{$.Partition .}} PARTITION OF {{$.Table}} FOR VALUES WITH (MODULUS {{len $.Partitions}}, REMAINDER {{.}});
{{end -}}
CREATE INDEX IF NOT EXISTS {{.Index "_id_idx"}} ON {{.Table}} (id);
