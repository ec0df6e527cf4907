package main

import (
	"crypto/tls"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// hidden stands where a secret would.
const hidden = "xxxxx"

// redactDSN returns a connection string without its passwords. One that cannot
// be parsed is not shown at all: a password may stand anywhere in it.
func redactDSN(dsn string) string {
	if dsn == "" {
		return ""
	}
	if _, err := pgx.ParseConfig(dsn); err != nil {
		return hidden
	}
	if _, rest, url := strings.Cut(dsn, "://"); url && isURL(dsn) {
		path, _, _ := strings.Cut(rest, "?")
		if slash := strings.IndexByte(path, '/'); slash >= 0 && strings.Contains(path[slash:], "@") {
			return hidden // a password with a slash in it was taken for host and path
		}
		// The library knows the parts of what it can parse.
		shown := strings.TrimPrefix(pgconn.NewParseConfigError(dsn, "", nil).Error(), "cannot parse `")
		return strings.TrimSuffix(shown, "`: ")
	}
	return redactKeywords(dsn)
}

func isURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

const keywordSpace = " \t\n\r\v\f"

// keywords are those of libpq that are known, and the settings that people
// give in a connection string.
var keywords = strings.Fields(`host port dbname database user password passfile connect_timeout
	sslmode sslkey sslcert sslcertmode sslrootcert sslnegotiation sslpassword sslsni krbspn krbsrvname channel_binding require_auth
	target_session_attrs service servicefile min_protocol_version max_protocol_version
	application_name options replication client_encoding timezone search_path
	tcp_user_timeout keepalives keepalives_idle keepalives_interval keepalives_count
	default_query_exec_mode statement_cache_capacity description_cache_capacity`)

// redactKeywords is redactDSN for a keyword string that libpq takes.
func redactKeywords(dsn string) string {
	var shown []string
	rest := strings.TrimLeft(dsn, keywordSpace)
	for rest != "" {
		key, behind, _ := strings.Cut(rest, "=")
		key = strings.Trim(key, keywordSpace)
		value, behind := cutKeywordValue(strings.TrimLeft(behind, keywordSpace))
		switch {
		case !slices.Contains(keywords, key), strings.Contains(strings.ToLower(value), "password"):
			return hidden // a password without its quotes, or one that was taken for part of a value
		case key == "password" || key == "sslpassword":
			value = hidden
		}
		shown = append(shown, key+"="+value)
		rest = strings.TrimLeft(behind, keywordSpace)
	}
	return strings.Join(shown, " ")
}

// cutKeywordValue cuts the value in front of text, in its quotes if it has any.
// A backslash takes the meaning from whatever follows it.
func cutKeywordValue(text string) (value, rest string) {
	quoted := strings.HasPrefix(text, "'")
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case quoted && i > 0 && text[i] == '\'':
			return text[:i+1], text[i+1:]
		case !quoted && strings.IndexByte(keywordSpace, text[i]) >= 0:
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// destination is where a connection string leads, together with libpq's variables,
// its service file and its defaults.
type destination struct {
	Hosts    []string `json:"hosts"`
	Database string   `json:"database"`
	User     string   `json:"user"`
	SSLMode  string   `json:"sslmode"`
}

// resolveDSN returns where dsn leads, nil if it cannot be parsed.
func resolveDSN(dsn string) *destination {
	cc, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil
	}
	to := &destination{Database: cc.Database, User: cc.User, SSLMode: sslMode(cc)}
	if to.Database == "" {
		to.Database = cc.User
	}
	add := func(host string, port uint16) {
		name := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if !slices.Contains(to.Hosts, name) {
			to.Hosts = append(to.Hosts, name)
		}
	}
	add(cc.Host, cc.Port)
	for _, f := range cc.Fallbacks {
		add(f.Host, f.Port)
	}
	return to
}

// String says it in a line.
func (to *destination) String() string {
	return strings.Join(to.Hosts, ", ") + ", database " + to.Database + ", user " + to.User + ", sslmode " + to.SSLMode
}

// sslMode returns the mode that gives the attempts of a connection: it is not
// kept as such.
func sslMode(cc *pgx.ConnConfig) string {
	other := func(withTLS bool) bool {
		return slices.ContainsFunc(cc.Fallbacks, func(f *pgconn.FallbackConfig) bool {
			return f.Host == cc.Host && f.Port == cc.Port && (f.TLSConfig != nil) == withTLS
		})
	}
	switch {
	case cc.TLSConfig == nil && other(true):
		return "allow"
	case cc.TLSConfig == nil:
		return "disable"
	case other(false):
		return "prefer"
	}
	return strictSSLMode(cc.TLSConfig)
}

func strictSSLMode(c *tls.Config) string {
	switch {
	case !c.InsecureSkipVerify:
		return "verify-full"
	case c.VerifyPeerCertificate != nil || c.VerifyConnection != nil:
		return "verify-ca"
	}
	return "require"
}
