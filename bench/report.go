//go:build linux || darwin

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// report is what a run of the bench has measured, as -json saves it.
type report struct {
	Time       time.Time    `json:"time"`
	Seconds    float64      `json:"seconds"`
	Scale      float64      `json:"scale"`
	Repeat     int          `json:"repeat"`
	Machine    machine      `json:"machine"`
	PostgreSQL string       `json:"postgresql"`
	Kafka      string       `json:"kafka"`
	Cases      []caseReport `json:"cases"`
}

// caseReport is what was measured in a case. Error says why it is incomplete.
type caseReport struct {
	Name           string            `json:"name"`
	Title          string            `json:"title"`
	Rows           int               `json:"rows,omitempty"`
	PerTransaction int               `json:"rows_per_transaction,omitempty"`
	RowBytes       int               `json:"row_bytes,omitempty"`
	Topics         int               `json:"topics"`
	Partitions     int               `json:"partitions"`
	Seconds        float64           `json:"seconds"` // the load included
	Error          string            `json:"error,omitempty"`
	Contenders     []contenderReport `json:"contenders"`
}

// contenderReport holds the runs of a contender in a case.
type contenderReport struct {
	Name string   `json:"name"`
	Runs []sample `json:"runs"`
}

func newReport(o options) *report {
	return &report{Time: time.Now().UTC().Truncate(time.Second), Scale: o.scale, Repeat: o.repeat, Machine: thisMachine(), Kafka: harness.KafkaVersion}
}

func newCaseReport(s scenario) caseReport {
	c := caseReport{
		Name: s.name, Title: s.title, Rows: s.load.rows, PerTransaction: s.load.perTransaction, RowBytes: s.load.rowBytes,
		Topics: s.topics, Partitions: s.partitions,
	}
	for _, who := range s.contenders {
		c.Contenders = append(c.Contenders, contenderReport{Name: who})
	}
	return c
}

// add notes a run of a contender.
func (c *caseReport) add(who string, s sample) {
	i := slices.IndexFunc(c.Contenders, func(r contenderReport) bool { return r.Name == who })
	c.Contenders[i].Runs = append(c.Contenders[i].Runs, s)
}

// summary returns a figure of a contender in a case, and whether it was
// measured.
func (r *report) summary(name, who string, f figure) (summary, bool) {
	for _, c := range r.Cases {
		if c.Name != name {
			continue
		}
		for _, contender := range c.Contenders {
			if contender.Name == who {
				return summarise(contender.Runs, f)
			}
		}
	}
	return summary{}, false
}

// failure says which cases have failed; nil if none has.
func (r *report) failure() error {
	var failed []error
	for _, c := range r.Cases {
		if c.Error != "" {
			failed = append(failed, fmt.Errorf("case %s has failed: %s", c.Name, c.Error))
		}
	}
	return errors.Join(failed...)
}

// save writes the report to a file.
func (r *report) save(name string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

// loadReports reads what save has written. The cases of all files make one
// report; where two have the same case, the later counts.
func loadReports(names []string) (*report, error) {
	var whole *report
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var r report
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s is not what -json writes: %w", name, err)
		}
		if whole == nil {
			whole = &r
			continue
		}
		if r.Scale != whole.Scale || r.Machine != whole.Machine {
			return nil, fmt.Errorf("%s and %s are of different machines or scales", names[0], name)
		}
		whole.Cases = slices.DeleteFunc(whole.Cases, func(c caseReport) bool {
			return slices.ContainsFunc(r.Cases, func(other caseReport) bool { return other.Name == c.Name })
		})
		whole.Cases = append(whole.Cases, r.Cases...)
		whole.Seconds += r.Seconds
	}
	return whole, nil
}
