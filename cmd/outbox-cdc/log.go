package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/outbox-cdc/outbox-cdc/units"
)

// newLogger returns the logger that --log-level and --log-format ask for.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	options := slog.HandlerOptions{ReplaceAttr: inWords}
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	l, known := levels[strings.ToLower(level)]
	if !known {
		return nil, fmt.Errorf("--log-level must be debug, info, warn or error, got %q", level)
	}
	options.Level = l
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, &options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, &options)), nil
	case "auto":
		if isTerminal(w) {
			return slog.New(slog.NewTextHandler(w, &options)), nil
		}
		return slog.New(slog.NewJSONHandler(w, &options)), nil
	}
	return nil, fmt.Errorf("--log-format must be auto, text or json, got %q", format)
}

// inWords has every value that can say itself as text do so: JSON would show
// durations as nanoseconds, and others as numbers or structures.
func inWords(_ []string, a slog.Attr) slog.Attr {
	value := a.Value.Any()
	if _, moment := value.(time.Time); moment {
		return a
	}
	if d, ok := value.(time.Duration); ok {
		a.Value = slog.StringValue(units.Duration(d))
	} else if text, ok := value.(fmt.Stringer); ok {
		a.Value = slog.StringValue(text.String())
	}
	return a
}

// isTerminal reports whether a stream leads to a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
