//go:build linux || darwin

package harness

import (
	"strings"
	"testing"
	"time"
)

func TestPostgresKeepsItsDataOverEveryKindOfStop(t *testing.T) {
	p := NewPostgres(t, PostgresConfig{Settings: map[string]string{"wal_sender_timeout": "2s"}})
	ctx := t.Context()
	db := NewDatabase(t, p)
	if err := p.Exec(ctx, db, "CREATE TABLE seen (what text)"); err != nil {
		t.Fatal(err)
	}
	stops := []struct {
		name string
		stop func() error
	}{
		{"smart", func() error { _, err := p.Stop(ctx, Smart); return err }},
		{"fast", func() error { _, err := p.Stop(ctx, Fast); return err }},
		{"immediate", func() error { _, err := p.Stop(ctx, Immediate); return err }},
		{"killed", p.Kill},
	}
	want := ""
	for _, s := range stops {
		if err := p.Exec(ctx, db, "INSERT INTO seen VALUES ($1)", s.name); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		want += s.name + " "
		if err := s.stop(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if p.Running() {
			t.Fatalf("%s: the server still runs", s.name)
		}
		if err := p.Start(ctx); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	got, err := Query[string](ctx, p, db, "SELECT what FROM seen ORDER BY ctid")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(got, " ") + " "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	timeout, err := QueryValue[string](ctx, p, db, "SHOW wal_sender_timeout")
	if err != nil || timeout != "2s" {
		t.Errorf("wal_sender_timeout is %q (%v), want 2s", timeout, err)
	}
}

func TestPostgresPausedAnswersNothing(t *testing.T) {
	p := NewPostgres(t, PostgresConfig{})
	conn, err := p.Connect(t.Context(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(t.Context()) }()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}

func TestPostgresRestoredFromACopy(t *testing.T) {
	p := NewPostgres(t, PostgresConfig{})
	ctx := t.Context()
	for _, sql := range []string{"CREATE TABLE kept ()", "SELECT pg_create_logical_replication_slot('kept', 'pgoutput')"} {
		if err := p.Exec(ctx, "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Stop(ctx, Fast); err != nil {
		t.Fatal(err)
	}
	saved, err := p.SaveData()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Exec(ctx, "postgres", "CREATE TABLE lost ()"); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.RestoreData(saved); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := Query[string](ctx, p, "postgres", "SELECT relname::text FROM pg_class WHERE relname IN ('kept', 'lost') UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(got, ", "), "kept, slot kept"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
