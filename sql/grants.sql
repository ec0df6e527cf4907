-- What the role that runs outbox-cdc needs, beside LOGIN and REPLICATION.
GRANT CONNECT ON DATABASE {{.Database}} TO {{.Role}};
GRANT USAGE ON SCHEMA {{.Schema}} TO {{.Role}};
{{if .Name}}GRANT SELECT ON {{.Table}} TO {{.Role}};
{{end}}GRANT SELECT, INSERT, UPDATE ON {{.Checkpoint}}, {{.DeadLetters}} TO {{.Role}};
