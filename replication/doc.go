// Package replication reads one pgoutput logical replication slot of a
// PostgreSQL server and manages slots and publications.
//
// A session is made of three things. Preflight looks by SQL at everything
// that has to be right before a row may be read. A Stream is one
// START_REPLICATION session: it hands decoded chunks over and reports back to
// the server what has been confirmed. A Guard proves on a connection of its
// own that the slot is still ours and that our tables are still published.
//
// The guarantee: the server is never told of a position that the caller did not
// confirm, or that this session did not receive, and every session starts at
// the slot's own position. When anything is in doubt the session ends and the
// caller starts another.
//
// What a caller must know: a Stream is driven by one goroutine, which calls
// Run, then Finish. ErrSetup, ErrGap, ErrBusy and ErrDenied in the chain of an
// error need a person; with any other the session may be tried again.
package replication
