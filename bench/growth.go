//go:build linux || darwin

package main

// growth shows how the cost grows over one thing, all else equal.
type growth struct {
	over  string
	steps []step
}

// step is a case, by how much there is of the thing.
type step struct{ amount, name string }

func growths() []growth {
	return []growth{
		{"rows a transaction", []step{
			{"1", "drain-1"}, {"10", "transactions-10"}, {"100", "drain-100"}, {"1,000", "transactions-1000"},
			{"10,000", "transactions-10000"}, {"1,000,000", "drain-1m"},
		}},
		{"bytes a row", []step{
			{"100", "rows-100b"}, {"300", "drain-100"}, {"2,000", "rows-2kb"}, {"20,000", "rows-20kb"}, {"500,000", "rows-500kb"},
		}},
		{"partitions of the topic", []step{{"1", "partitions-1"}, {"8", "partitions-8"}, {"64", "partitions-64"}}},
		{"topics of one partition", []step{{"1", "partitions-1"}, {"200", "topics-200"}}},
		{"rows waiting", []step{{"20,000", "start"}, {"300,000", "partitions-8"}, {"1,000,000", "drain-100"}, {"5,000,000", "backlog-5m"}}},
	}
}

// grid is the growth as a table of medians of outbox-cdc, nil if there are not
// at least two steps.
func (g growth) grid(r *report) [][]string {
	columns := []figure{rowRate, byteRate, cpuPerMillion, cpuPerGB, peakMemory, firstRecord, acquiring, allWriting}
	heading := []string{g.over, "case"}
	for _, f := range columns {
		heading = append(heading, f.heading)
	}
	rows := [][]string{heading}
	for _, s := range g.steps {
		row := []string{s.amount, s.name}
		measured := false
		for _, f := range columns {
			cell := ""
			if v, ok := r.summary(s.name, ours, f); ok {
				cell, measured = number(v.Median, f.digits), true
			}
			row = append(row, cell)
		}
		if measured {
			rows = append(rows, row)
		}
	}
	if len(rows) < 3 {
		return nil
	}
	return rows
}
