//go:build linux || darwin

package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are files in PEM form, made for one server or cluster.
type Certificates struct {
	// CA is the certificate that vouches for the brokers and for Cert.
	CA string
	// Cert and Key are a client's, with the common name "client", which is its
	// user name to the brokers.
	Cert, Key string
	// OtherCA vouches for nobody here.
	OtherCA string

	dir            string
	serverKeyStore string // key and certificate in one file
	authority      *authority
}

// clientName is the common name in the client's certificate.
const clientName = "client"

// NewCertificates makes a certificate authority and what it vouches for, in a
// temporary directory that is removed with this process.
func NewCertificates() (*Certificates, error) {
	dir, err := tempDir("certificates")
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	c := &Certificates{
		CA: file("ca.pem"), Cert: file("client.pem"), Key: file("client.key"), OtherCA: file("other-ca.pem"),
		dir: dir, serverKeyStore: file("server.pem"),
	}
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	c.authority = ca
	other, err := newAuthority()
	if err != nil {
		return nil, err
	}
	serverCert, serverKey, err := ca.issue("localhost")
	if err != nil {
		return nil, err
	}
	clientCert, clientKey, err := ca.issue(clientName)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		c.CA: ca.pem(), c.OtherCA: other.pem(), c.serverKeyStore: append(serverKey, serverCert...), c.Cert: clientCert, c.Key: clientKey,
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Renew makes another certificate and key for the client of Cert and Key, as
// before one expires.
func (c *Certificates) Renew() (cert, key []byte, err error) { return c.authority.issue(clientName) }

func (c *Certificates) remove() error { return removeTemp(c.dir) }

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificateTemplate("harness CA")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

func (a *authority) pem() []byte { return certificatePEM(a.cert.Raw) }

// issue makes a certificate for this machine, and its key.
func (a *authority) issue(name string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := certificateTemplate(name)
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return certificatePEM(der), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func certificateTemplate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)) // never fails: crypto/rand
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}
