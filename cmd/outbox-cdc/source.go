package main

import "fmt"

// sourceKind is a place that a value can come from. The higher one counts.
type sourceKind int

const (
	fromDefault sourceKind = iota
	fromFile
	fromEnvironment
	fromFlag
)

// source says where a value was found.
type source struct {
	kind     sourceKind
	variable string // of the environment
	path     string // of the configuration file
	line     int
	// secret is the file that holds the value itself; the rest says who
	// named it.
	secret string
}

// String says it as config print does.
func (s source) String() string {
	if s.secret != "" {
		named := s
		named.secret = ""
		return fmt.Sprintf("file %s, named by %s", s.secret, named)
	}
	switch s.kind {
	case fromFlag:
		return "flag"
	case fromEnvironment:
		return "environment variable " + s.variable
	case fromFile:
		return fmt.Sprintf("%s:%d", s.path, s.line)
	}
	return "default"
}
