//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestLogin covers connections that are let in and connections that are not, on
// listeners with TLS, with a login, and with client certificates.
func TestLogin(t *testing.T) {
	kafka := harness.NewKafka(t, harness.KafkaConfig{Users: []harness.User{{Name: "relay", Password: testPassword}}})
	certificates := kafka.Certificates()
	trusted := TLS{Enabled: true, CAFile: certificates.CA}
	mutual := trusted
	mutual.CertFile, mutual.KeyFile = certificates.Cert, certificates.Key
	sasl := func(mechanism string) SASL { return SASL{Mechanism: mechanism, User: "relay", Password: testPassword} }
	wrong := sasl(saslScramSHA256)
	wrong.Password = "not the password"
	unknown := sasl(saslPlain)
	unknown.User = "stranger"

	tests := []struct {
		name     string
		addrs    []string
		security Security
		// class and says describe the error, none if says is empty.
		class class
		says  string
	}{
		{name: "no protection", addrs: kafka.Addrs()},
		{name: "PLAIN", addrs: kafka.SecureAddrs(), security: Security{trusted, sasl(saslPlain)}},
		{name: "SCRAM-SHA-256", addrs: kafka.SecureAddrs(), security: Security{trusted, sasl(saslScramSHA256)}},
		{name: "SCRAM-SHA-512", addrs: kafka.SecureAddrs(), security: Security{trusted, sasl(saslScramSHA512)}},
		{name: "client certificate", addrs: kafka.MTLSAddrs(), security: Security{TLS: mutual}},
		{name: "any certificate of the broker", addrs: kafka.SecureAddrs(), security: Security{TLS{Enabled: true, InsecureSkipVerify: true}, sasl(saslPlain)}},
		{name: "wrong password", addrs: kafka.SecureAddrs(), security: Security{trusted, wrong}, class: classOperator, says: "Authentication failed"},
		{name: "unknown user", addrs: kafka.SecureAddrs(), security: Security{trusted, unknown}, class: classOperator, says: "Authentication failed"},
		{name: "no client certificate", addrs: kafka.MTLSAddrs(), security: Security{TLS: trusted}, class: classOperator, says: "certificate"},
		{name: "authority of somebody else", addrs: kafka.MTLSAddrs(), security: Security{TLS: TLS{Enabled: true, CAFile: certificates.OtherCA}}, class: classOperator, says: "certificate"},
		{name: "another server's name", addrs: kafka.MTLSAddrs(), security: Security{TLS: TLS{Enabled: true, CAFile: certificates.CA, ServerName: "other"}}, class: classOperator, says: "other"},
		{name: "TLS to a plain listener", addrs: kafka.Addrs(), security: Security{TLS: trusted}, class: classTransient, says: "without --tls"},
		{name: "plain to a TLS listener", addrs: kafka.MTLSAddrs(), class: classTransient, says: "run with --tls"},
		{name: "no login where one is expected", addrs: kafka.SecureAddrs(), security: Security{TLS: trusted}, class: classTransient, says: "--sasl-mechanism"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := openCluster(t, test.addrs, func(conf *clusterConfig) { conf.Security = test.security })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := c.connect(ctx)
			if test.says == "" {
				if err != nil {
					t.Errorf("not let in: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.says) || classify(err).class != test.class {
				t.Errorf("got %v (%s), want %q of class %s", err, classify(err).class, test.says, test.class)
			}
			if password := test.security.SASL.Password; password != "" && err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("error shows the password: %v", err)
			}
		})
	}

	t.Run("diagnoses", func(t *testing.T) { testDiagnoses(t, kafka, trusted) })
	t.Run("certificate renewed on disk", func(t *testing.T) { testCertificateRenewed(t, kafka) })
	t.Run("exact over TLS with a login", func(t *testing.T) {
		topic := harness.NewTopic(t, kafka, harness.TopicConfig{})
		grant(t, kafka, "relay", topic, allOf{
			topic:         ops(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe),
			transactional: ops(kadm.OpWrite, kadm.OpDescribe),
		})
		c := openCluster(t, kafka.SecureAddrs(), func(conf *clusterConfig) { conf.Security = Security{trusted, sasl(saslScramSHA512)} })
		p := openPartition(t, c, topic)
		p.mustSend(eventBatch(p.acquire().identity, 0, 1, 1, time.Now()))
		p.wantTail(p.acquire(), 1, 1)
	})
}

// testCertificateRenewed replaces the pair on disk, first one file and then the
// other. New connections fail in between and work afterwards.
func testCertificateRenewed(t *testing.T, kafka *harness.Kafka) {
	certificates := kafka.Certificates()
	dir := t.TempDir()
	conf := TLS{Enabled: true, CAFile: certificates.CA, CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	others, err := harness.NewCertificates()
	if err != nil {
		t.Fatal(err)
	}
	copyTo(t, conf.CertFile, certificates.Cert)
	copyTo(t, conf.KeyFile, others.Key)
	c := openCluster(t, kafka.MTLSAddrs(), func(c *clusterConfig) { c.Security.TLS = conf })
	err = c.connect(t.Context())
	var mismatch *tlsFileError
	if !errors.As(err, &mismatch) || classify(err).class != classOperator {
		t.Errorf("with a key of another certificate: got %v, want a %T", err, mismatch)
	}
	copyTo(t, conf.KeyFile, certificates.Key)
	if err := c.connect(t.Context()); err != nil {
		t.Errorf("with the right key: %v", err)
	}
}

func copyTo(t *testing.T, to, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
