-- What the role that runs outbox-cdc needs, beside LOGIN and REPLICATION.
GRANT CONNECT ON DATABASE {{.Database}} TO {{.Role}};
GRANT USAGE ON SCHEMA {{.Schema}} TO {{.Role}};
GRANT SELECT ON {{.Table}} TO {{.Role}};
GRANT SELECT, INSERT, UPDATE ON {{.Checkpoint}}, {{.DeadLetters}} TO {{.Role}};
