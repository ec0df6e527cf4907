package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// routingVersion changes with anything that sends an event to another
// partition than before. It is part of the origin.
const routingVersion = "1"

// originOf returns all that decides which position goes to which partition, the
// number of partitions excepted. What is left at its default adds nothing, so that
// a new setting changes the origin of those alone who use it.
func originOf(cfg Config, r routing, in Session) string {
	parts := []string{routingVersion, in.SystemID, in.Slot, in.Stream, cfg.Topic, string(cfg.Key), string(cfg.PartitionBy)}
	parts = append(parts, cfg.Routing.origin()...)
	if cfg.Headers != HeadersPlain {
		// Records are recognised by headers of other names.
		parts = append(parts, "headers "+string(cfg.Headers))
	}
	var tables []string
	for _, table := range in.Tables {
		m := table.Mapping
		ids := m.IDColumns
		if len(ids) == 0 {
			ids = []string{m.ID}
		}
		columns := fmt.Sprintf("%q", slices.Concat(ids, []string{m.AggregateType, m.AggregateID, m.EventType}))
		route := cfg.Routing.ofItsOwn(table)
		if r.of(table).template.namesTables() || !m.IsZero() || route != "" {
			// The name of a table may stand in the topic's, and another table
			// may get that name.
			entry := fmt.Sprintf("table %d %s %s", table.OID, table, columns)
			if len(m.Renamed) > 0 {
				entry += fmt.Sprintf(" %q", m.Renamed)
			}
			tables = append(tables, entry+route)
		}
	}
	slices.Sort(tables)
	return strings.Join(append(parts, tables...), "\x00")
}

// originOf returns the origin header of the records of a topic with n
// partitions: a short hash that changes whenever a position might go to
// another partition than before.
func (r *router) originOf(n int) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", r.origin, n))
	return hex.AppendEncode(nil, sum[:8])
}
