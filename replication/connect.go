package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
)

const defaultConnectTimeout = 10 * time.Second

// pinned are the settings that decide the text of values, and those by which a
// database or role default could end a session. Sent in the startup message
// they win over ALTER DATABASE and ALTER ROLE.
var pinned = map[string]string{
	"client_encoding":                     "UTF8",
	"datestyle":                           "ISO",
	"timezone":                            "UTC",
	"intervalstyle":                       "postgres",
	"extra_float_digits":                  "3",
	"bytea_output":                        "hex",
	"statement_timeout":                   "0",
	"idle_in_transaction_session_timeout": "0",
}

// endpoint is the address that a connection was made to. A DSN may name
// several hosts, and a name several addresses.
type endpoint struct{ network, address string }

// cancelWithin is how long a statement that is cancelled may take to end
// before its connection is given up.
const cancelWithin = 5 * time.Second

// Connect opens an ordinary connection to the server of the DSN. When the
// context of a statement ends, the statement is cancelled on the server and
// its end awaited, so that nothing comes into being later. The caller closes
// the connection.
func (c Config) Connect(ctx context.Context) (*pgx.Conn, error) {
	cc, err := c.connConfig()
	if err != nil {
		return nil, err
	}
	cc.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelWithin}
	}
	conn, _, err := dialOrdinary(ctx, cc, endpoint{})
	return conn, err
}

// connect opens an ordinary connection, to pin if it is set, and says where
// it leads. The end of a statement's context closes it.
func (c Config) connect(ctx context.Context, pin endpoint) (*pgx.Conn, endpoint, error) {
	cc, err := c.connConfig()
	if err != nil {
		return nil, endpoint{}, err
	}
	return dialOrdinary(ctx, cc, pin)
}

func dialOrdinary(ctx context.Context, cc *pgx.ConnConfig, pin endpoint) (*pgx.Conn, endpoint, error) {
	d := &dialer{pin: pin, timeout: cc.ConnectTimeout}
	cc.DialFunc = d.dial
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, endpoint{}, connectFault(ctx, cc, err)
	}
	return conn, d.reached, nil
}

// replicationConn is a connection in walsender mode that does not speak
// streaming replication yet.
type replicationConn struct {
	*pgconn.PgConn
	dialer *dialer
	source io.Reader
}

// connectReplication opens a replication connection to pin, if it is set, with
// a wal_sender_timeout of its own.
func (c Config) connectReplication(ctx context.Context, pin endpoint, timeout time.Duration) (*replicationConn, error) {
	cc, err := c.connConfig()
	if err != nil {
		return nil, err
	}
	rc := &replicationConn{dialer: &dialer{pin: pin, timeout: cc.ConnectTimeout, large: true}}
	cc.DialFunc = rc.dialer.dial
	cc.RuntimeParams["replication"] = "database"
	cc.RuntimeParams["wal_sender_timeout"] = strconv.FormatInt(timeout.Milliseconds(), 10)
	log := c.log()
	cc.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		log.Warn("notice from the server", "slot", c.Slot, "code", n.Code, "message", n.Message, "detail", n.Detail)
	}
	cc.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		rc.source = r
		return pgproto3.NewFrontend(&exactReader{src: r}, w)
	}
	rc.PgConn, err = pgconn.ConnectConfig(ctx, &cc.Config)
	if err != nil {
		return nil, connectFault(ctx, cc, err)
	}
	return rc, nil
}

// leave closes the connection and waits, a little, until the server has let
// go of its walsender: the next connection may need the place.
func (rc *replicationConn) leave() {
	conn := rc.Conn()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write(appendEmpty(nil, msgTerminate)); err == nil {
		io.Copy(io.Discard, rc.source)
	}
	closeQuietly(rc.PgConn)
}

// connConfig parses the DSN and pins what must not be left to the server's
// defaults.
func (c Config) connConfig() (*pgx.ConnConfig, error) {
	cc, err := parseDSN(c.DSN)
	if err != nil {
		return nil, err
	}
	if c.Password != "" {
		cc.Password = c.Password
	}
	for name, value := range pinned {
		cc.RuntimeParams[name] = value
	}
	delete(cc.RuntimeParams, "replication") // asked for where it is wanted
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = c.applicationName()
	}
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = defaultConnectTimeout
	}
	// The other modes guess the types of parameters, with a table that the
	// release build leaves out.
	if mode := cc.DefaultQueryExecMode; mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
		cc.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	}
	return cc, nil
}

func (c Config) applicationName() string {
	if c.ApplicationName == "" {
		return defaultApplication
	}
	return c.ApplicationName
}

func validateDSN(dsn string) error {
	_, err := parseDSN(dsn)
	return err
}

// parseDSN parses a connection string. The error shows nothing of it, since a
// password may stand anywhere in one that is malformed.
func parseDSN(dsn string) (*pgx.ConnConfig, error) {
	cc, err := pgx.ParseConfig(dsn)
	if err == nil {
		return cc, nil
	}
	// The library puts the string in front of the reason.
	reason, ok := strings.CutPrefix(err.Error(), pgconn.NewParseConfigError(dsn, "", nil).Error())
	if !ok {
		reason = "it is malformed"
	}
	if why, ok := strings.CutPrefix(reason, "failed to configure TLS ("); ok {
		return nil, fmt.Errorf("--dsn asks for TLS that cannot be set up; check sslmode, sslrootcert, sslcert and sslkey in it: %s", oneLine(errors.New(strings.TrimSuffix(why, ")"))))
	}
	if why, ok := strings.CutPrefix(reason, "failed to read service ("); ok {
		return nil, fmt.Errorf("--dsn leads to a service that cannot be read; check service in it, PGSERVICE and PGSERVICEFILE: %s", oneLine(errors.New(strings.TrimSuffix(why, ")"))))
	}
	reason, _, _ = strings.Cut(reason, " (")
	return nil, fmt.Errorf("--dsn must be a connection URL with special characters percent-encoded, or a libpq keyword string: %s", oneLine(errors.New(reason)))
}

// dialer makes the network connections of one connection attempt.
type dialer struct {
	pin     endpoint
	timeout time.Duration
	large   bool // ask for a large receive buffer

	reached endpoint
	conn    net.Conn // before TLS
	granted int      // bytes of the receive buffer, 0 if left to the system
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	to := endpoint{network, address}
	if d.pin != (endpoint{}) && d.pin != to {
		return nil, fmt.Errorf("%s is not the server that this session began with", address)
	}
	nd := net.Dialer{
		Timeout:         d.timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	d.granted = 0
	if d.large && network != "unix" {
		nd.Control = receiveBufferControl(receiveBufferBytes, &d.granted)
	}
	conn, err := nd.DialContext(ctx, network, address)
	if err == nil {
		d.reached, d.conn = to, conn
	}
	return conn, err
}

// oneLine returns an error's text with each of its lines once, in one line.
func oneLine(err error) string {
	var lines []string
	seen := make(map[string]bool)
	for line := range strings.Lines(err.Error()) {
		line = strings.Join(strings.Fields(line), " ")
		if line != "" && !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// serverVersion returns server_version_num, such as 150004.
func serverVersion(ctx context.Context, conn *pgx.Conn) (version int, err error) {
	err = conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("read the server's version: %w", err)
	}
	return version, nil
}
