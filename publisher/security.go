package publisher

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// Security says how connections to the brokers are protected and who we are on
// them. The zero value is a plain connection of nobody.
type Security struct {
	TLS  TLS
	SASL SASL
}

// TLS describes the transport. The files are read again for every new
// connection, so a certificate that is renewed on disk is used from the next
// connection on. A pair that does not match, because it is being replaced, is
// an error of that connection only.
type TLS struct {
	Enabled bool
	// CAFile holds the PEM certificates to trust; empty means those of the
	// system.
	CAFile string
	// CertFile and KeyFile are the client's PEM certificate and key, both or
	// neither.
	CertFile, KeyFile string
	// ServerName is expected in the broker's certificate instead of the host
	// name that was dialed.
	ServerName string
	// InsecureSkipVerify accepts any certificate of the broker.
	InsecureSkipVerify bool
}

// The values of SASL.Mechanism.
const (
	saslPlain       = "PLAIN"
	saslScramSHA256 = "SCRAM-SHA-256"
	saslScramSHA512 = "SCRAM-SHA-512"
)

// SASL is the login. An empty Mechanism means none.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism      string
	User, Password string
}

// Validate reports every fault at once, each with its flag. It reads no
// certificate: one that is being replaced at this moment is not a fault of the
// configuration. A file that is not there is.
func (s Security) Validate() error {
	return errors.Join(s.TLS.validate(), s.SASL.validate())
}

func (t TLS) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	files := []struct{ flag, path string }{{"--tls-ca", t.CAFile}, {"--tls-cert", t.CertFile}, {"--tls-key", t.KeyFile}}
	for _, file := range files {
		if file.path == "" {
			continue
		}
		if !t.Enabled {
			fault("%s needs --tls, got %q without it", file.flag, file.path)
		}
		if _, err := os.Stat(file.path); err != nil {
			fault("%s must name a file that can be read: %w", file.flag, err)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		fault("--tls-cert and --tls-key must be given together, got %q and %q", t.CertFile, t.KeyFile)
	}
	if t.ServerName != "" && !t.Enabled {
		fault("--tls-server-name needs --tls, got %q without it", t.ServerName)
	}
	if t.InsecureSkipVerify && !t.Enabled {
		fault("--tls-insecure-skip-verify needs --tls, got true without it")
	}
	return errors.Join(faults...)
}

func (s SASL) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	known := []string{saslPlain, saslScramSHA256, saslScramSHA512}
	switch {
	case s.Mechanism == "":
		if s.User != "" {
			fault("--sasl-user needs --sasl-mechanism, got %q without it", s.User)
		}
		if s.Password != "" {
			fault("--sasl-password needs --sasl-mechanism, got a password without it")
		}
	case !slices.Contains(known, s.Mechanism):
		fault("--sasl-mechanism must be one of %s, got %q", strings.Join(known, ", "), s.Mechanism)
	default:
		if s.User == "" {
			fault("--sasl-user must be given with --sasl-mechanism %s, got %q", s.Mechanism, s.User)
		}
		if s.Password == "" {
			fault("--sasl-password must be given with --sasl-mechanism %s, got an empty one", s.Mechanism)
		}
	}
	return errors.Join(faults...)
}

// CheckFiles reads the files as a connection would, and reports each that it
// could not use. A file that is not there is left to Validate.
func (t TLS) CheckFiles() error {
	if !t.Enabled {
		return nil
	}
	var faults []error
	for _, read := range []func() error{
		func() error { _, err := t.roots(); return err },
		func() error { _, err := t.pair(); return err },
	} {
		if err := read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// load reads the files and returns what a connection to host is opened with.
func (t TLS) load(host string) (*tls.Config, error) {
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         host,
		InsecureSkipVerify: t.InsecureSkipVerify,
	}
	if t.ServerName != "" {
		conf.ServerName = t.ServerName
	}
	var err error
	if conf.RootCAs, err = t.roots(); err != nil {
		return nil, err
	}
	if conf.Certificates, err = t.pair(); err != nil {
		return nil, err
	}
	return conf, nil
}

// roots reads the certificates to trust; nil are the system's.
func (t TLS) roots() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, &tlsFileError{"--tls-ca", err}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, &tlsFileError{"--tls-ca", fmt.Errorf("%s holds no PEM certificate", t.CAFile)}
	}
	return roots, nil
}

// pair reads the client's certificate and key; nil if it has none.
func (t TLS) pair() ([]tls.Certificate, error) {
	if t.CertFile == "" || t.KeyFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, &tlsFileError{"--tls-cert and --tls-key", err}
	}
	return []tls.Certificate{pair}, nil
}

// tlsFileError is a certificate or key that cannot be used as it is on disk
// now. The next connection reads it again.
type tlsFileError struct {
	flag string
	err  error
}

func (e *tlsFileError) Error() string { return e.flag + ": " + e.err.Error() }
func (e *tlsFileError) Unwrap() error { return e.err }

// configure puts the login into conf. TLS is not sarama's: the dialer of a
// connection does it.
func (s SASL) configure(conf *sarama.Config) {
	if s.Mechanism == "" {
		return
	}
	login := &conf.Net.SASL
	login.Enable = true
	login.Mechanism = sarama.SASLMechanism(s.Mechanism)
	login.User, login.Password = s.User, s.Password
	switch s.Mechanism {
	case saslScramSHA256:
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA256} }
	case saslScramSHA512:
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA512} }
	}
}

// scramClient is one SCRAM conversation (RFC 5802), as sarama wants it.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	c.conversation = client.NewConversation()
	return nil
}

func (c *scramClient) Step(challenge string) (string, error) { return c.conversation.Step(challenge) }
func (c *scramClient) Done() bool                            { return c.conversation.Done() }
