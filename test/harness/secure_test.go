//go:build linux || darwin

package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func TestKafkaAsksForPasswordsCertificatesAndRights(t *testing.T) {
	k := NewKafka(t, KafkaConfig{Users: []User{{"relay", "secret"}, {"stranger", "other"}}})
	topic := NewTopic(t, k, TopicConfig{})
	for _, user := range []string{"relay", clientName} {
		if err := k.Allow(t.Context(), user, Topic(topic), kadm.OpWrite, kadm.OpDescribe); err != nil {
			t.Fatal(err)
		}
	}
	right := scram.Auth{User: "relay", Pass: "secret"}
	certs := k.Certificates()
	tests := []struct {
		name      string
		addrs     []string
		tls       *tls.Config
		mechanism sasl.Mechanism
		want      error
	}{
		{"SCRAM-SHA-256", k.SecureAddrs(), tlsConfig(t, certs.CA), right.AsSha256Mechanism(), nil},
		{"SCRAM-SHA-512", k.SecureAddrs(), tlsConfig(t, certs.CA), right.AsSha512Mechanism(), nil},
		{"PLAIN", k.SecureAddrs(), tlsConfig(t, certs.CA), plain.Auth{User: "relay", Pass: "secret"}.AsMechanism(), nil},
		{"wrong password", k.SecureAddrs(), tlsConfig(t, certs.CA), scram.Auth{User: "relay", Pass: "x"}.AsSha256Mechanism(), kerr.SaslAuthenticationFailed},
		{"user without rights", k.SecureAddrs(), tlsConfig(t, certs.CA), plain.Auth{User: "stranger", Pass: "other"}.AsMechanism(), kerr.TopicAuthorizationFailed},
		{"client certificate", k.MTLSAddrs(), tlsConfig(t, certs.CA, certs.Cert, certs.Key), nil, nil},
	}
	for _, tt := range tests {
		if err := produceOne(t.Context(), tt.addrs, tt.tls, tt.mechanism, topic); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := k.Forbid(t.Context(), clientName, Topic(topic)); err != nil {
		t.Fatal(err)
	}
	err := produceOne(t.Context(), k.MTLSAddrs(), tlsConfig(t, certs.CA, certs.Cert, certs.Key), nil, topic)
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("a user whose rights were taken back: got %v, want %v", err, kerr.TopicAuthorizationFailed)
	}
	if _, err := tls.Dial("tcp", k.SecureAddrs()[0], tlsConfig(t, certs.OtherCA)); err == nil {
		t.Error("another authority vouches for the broker")
	}
}

// produceOne writes a record with a client of its own.
func produceOne(ctx context.Context, addrs []string, config *tls.Config, mechanism sasl.Mechanism, topic string) error {
	opts := []kgo.Opt{kgo.SeedBrokers(addrs...), kgo.DialTLSConfig(config), kgo.DisableIdempotentWrite(), kgo.RecordRetries(1), kgo.MetadataMinAge(50 * time.Millisecond)}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
}

// tlsConfig trusts an authority and shows a certificate, if one is given.
func tlsConfig(t *testing.T, ca string, pair ...string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		t.Fatalf("no certificate in %s", ca)
	}
	if len(pair) == 2 {
		cert, err := tls.LoadX509KeyPair(pair[0], pair[1])
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = append(config.Certificates, cert)
	}
	return config
}
