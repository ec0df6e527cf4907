package publisher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecurityValidate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name     string
		security Security
		// want are what the error has to mention, one text for each fault.
		want []string
	}{
		{name: "nothing"},
		{name: "TLS with the system's certificates", security: Security{TLS: TLS{Enabled: true}}},
		{name: "TLS with files", security: Security{TLS: TLS{Enabled: true, CAFile: file, CertFile: file, KeyFile: file, ServerName: "kafka"}}},
		{name: "a login", security: Security{SASL: SASL{Mechanism: "SCRAM-SHA-512", User: "relay", Password: "secret"}}},
		{
			name:     "TLS options without TLS",
			security: Security{TLS: TLS{CAFile: file, ServerName: "kafka", InsecureSkipVerify: true}},
			want:     []string{"--tls-ca needs --tls", "--tls-server-name needs --tls", "--tls-insecure-skip-verify needs --tls"},
		},
		{
			name:     "a file that is not there",
			security: Security{TLS: TLS{Enabled: true, CAFile: file + ".none"}},
			want:     []string{"--tls-ca must name a file"},
		},
		{
			name:     "a certificate without key",
			security: Security{TLS: TLS{Enabled: true, CertFile: file}},
			want:     []string{"--tls-cert and --tls-key must be given together"},
		},
		{
			name:     "a mechanism that does not exist",
			security: Security{SASL: SASL{Mechanism: "SCRAM", User: "relay", Password: "secret"}},
			want:     []string{`--sasl-mechanism must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, got "SCRAM"`},
		},
		{
			name:     "a mechanism without user and password",
			security: Security{SASL: SASL{Mechanism: "PLAIN"}},
			want:     []string{"--sasl-user must be given", "--sasl-password must be given"},
		},
		{
			name:     "a user and a password without mechanism",
			security: Security{SASL: SASL{User: "relay", Password: "secret"}},
			want:     []string{"--sasl-user needs --sasl-mechanism", "--sasl-password needs --sasl-mechanism"},
		},
		{
			name:     "faults of both kinds",
			security: Security{TLS: TLS{ServerName: "kafka"}, SASL: SASL{Mechanism: "PLAIN", User: "relay"}},
			want:     []string{"--tls-server-name needs --tls", "--sasl-password must be given"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.security.Validate()
			if err == nil {
				if len(test.want) > 0 {
					t.Errorf("no error, want %q", test.want)
				}
				return
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(test.want) {
				t.Fatalf("got %q, want %d faults", lines, len(test.want))
			}
			for i, want := range test.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("fault %d is %q, want %q in it", i, lines[i], want)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error shows the password: %v", err)
			}
		})
	}
}
