-- The outbox with the column names of Debezium's outbox event router.
CREATE TABLE IF NOT EXISTS {{.Table}} (
    id            {{.ID}},
    aggregatetype varchar(255) NOT NULL,
    aggregateid   varchar(255) NOT NULL,
    type          varchar(255) NOT NULL,
    payload       jsonb
);
