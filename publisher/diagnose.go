package publisher

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// probeTimeout bounds the questions to one address.
	probeTimeout = 3 * time.Second
	// probeSilence is how long a listener may think about something that it
	// does not understand.
	probeSilence = time.Second
)

// diagnose finds out what listens on the addresses that --brokers names, when no
// broker could be reached there in the way that is configured. It returns nil
// unless something has shown that it is of another kind: a broker that is down, or
// is just starting, is none of that.
func (c *cluster) diagnose(ctx context.Context) *Fault {
	faults := make([]*Fault, len(c.conf.Bootstrap))
	var probing sync.WaitGroup
	for i, addr := range c.conf.Bootstrap {
		probing.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			p := probe{addr: addr, conf: c.conf.Security}
			faults[i] = p.diagnose(ctx)
		})
	}
	probing.Wait()
	for _, f := range faults {
		if f != nil {
			return f
		}
	}
	return nil
}

// probe looks at one address.
type probe struct {
	addr string
	conf Security
}

// listener is what an address has turned out to be.
type listener struct {
	// tls says that a TLS handshake was answered as such.
	tls bool
	// first is what came back for a question that every broker answers.
	first answer
	// mechanisms are those of its login; nil if it named none.
	mechanisms []string
	// loginless says that it answered a login with: there is none here.
	loginless bool
}

func (p probe) diagnose(ctx context.Context) *Fault {
	found := p.look(ctx, p.conf.TLS.Enabled)
	if !found.first.kafka && !found.first.foreign() {
		found = p.look(ctx, !p.conf.TLS.Enabled)
	}
	mechanism := p.conf.SASL.Mechanism
	switch {
	case found.first.foreign():
		return fault(ErrProtocol, nil, "what listens at %s is not Kafka but %s; correct --brokers", p.addr, found.first.name())
	case found.tls && !p.conf.TLS.Enabled:
		return fault(ErrProtocol, nil, "the listener at %s speaks TLS; run with --tls, or name a listener without TLS in --brokers", p.addr)
	case !found.first.kafka:
		return nil
	case !found.tls && p.conf.TLS.Enabled:
		return fault(ErrProtocol, nil, "the listener at %s does not speak TLS; run without --tls, or name its TLS listener in --brokers", p.addr)
	case found.loginless && mechanism != "":
		return fault(ErrDenied, nil, "the listener at %s has no login; run without --sasl-mechanism, or name another listener in --brokers", p.addr)
	case found.mechanisms != nil && mechanism == "":
		return fault(ErrDenied, nil, "the listener at %s asks for a login; run with --sasl-mechanism (it offers %s), --sasl-user and a password",
			p.addr, strings.Join(found.mechanisms, ", "))
	case found.mechanisms != nil && !slices.Contains(found.mechanisms, mechanism):
		return fault(ErrDenied, nil, "the listener at %s does not offer --sasl-mechanism %s, but %s", p.addr, mechanism, strings.Join(found.mechanisms, ", "))
	}
	return nil
}

// look asks the address, with or without TLS.
func (p probe) look(ctx context.Context, secured bool) (found listener) {
	conn, err := p.dial(ctx, secured)
	if err != nil {
		var alert *net.OpError
		found.tls = errors.As(err, &alert) && alert.Op == "remote error"
		return found
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	found.tls = secured
	if found.first = greet(conn); found.first.kafka {
		found.mechanisms, found.loginless = askMechanisms(conn)
	}
	return found
}

// dial connects. Whom the certificate belongs to does not matter here: nothing is
// told to the other end.
func (p probe) dial(ctx context.Context, secured bool) (net.Conn, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", p.addr)
	if err != nil || !secured {
		return raw, err
	}
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// answer is what came back for a question: all of it from a broker, the beginning
// from others.
type answer struct {
	kafka bool
	text  []byte
}

func (a answer) empty() bool { return len(a.text) == 0 }

// foreign reports whether no broker gives such an answer. An alert of TLS is none,
// it is what a broker says to us without TLS.
func (a answer) foreign() bool {
	return !a.empty() && !a.kafka && !bytes.HasPrefix(a.text, []byte{tlsAlert, 3})
}

// tlsAlert is a content type of TLS (RFC 8446, section 5.1).
const tlsAlert = 21

// name says what gives such an answer.
func (a answer) name() string {
	switch {
	case bytes.HasPrefix(a.text, []byte("HTTP/")):
		return "an HTTP server"
	case a.text[0] == 'E' && bytes.Contains(a.text, []byte("frontend protocol")):
		return "PostgreSQL"
	}
	return "something that speaks another protocol"
}

// The requests of the probe (Kafka protocol guide).
const (
	keyAPIVersions   = 18
	keySASLHandshake = 17
	codeIllegalSASL  = 34
	maxProbeAnswer   = 1 << 20
	probeCorrelation = 0x6f757462
)

// greet asks for the versions of the requests. What is no broker answers in its
// own way, or waits for the end of a line and is given one.
func greet(conn net.Conn) answer {
	found := ask(conn, kafkaRequest(keyAPIVersions, 0, nil))
	if found.empty() {
		found = ask(conn, []byte("\r\n\r\n"))
	}
	return found
}

// ask sends a question and returns what comes back soon.
func ask(conn net.Conn, question []byte) answer {
	if err := conn.SetDeadline(time.Now().Add(probeSilence)); err != nil {
		return answer{}
	}
	if _, err := conn.Write(question); err != nil {
		return answer{}
	}
	head := make([]byte, 8)
	n, err := io.ReadFull(conn, head)
	if err != nil {
		return answer{text: head[:n]}
	}
	// A broker's answer begins with its size and the number of the question.
	size := binary.BigEndian.Uint32(head)
	if binary.BigEndian.Uint32(head[4:]) == probeCorrelation && size >= 4 && size < maxProbeAnswer {
		body := make([]byte, size-4)
		_, err := io.ReadFull(conn, body)
		return answer{kafka: err == nil, text: body}
	}
	rest := make([]byte, 256)
	n, _ = io.ReadAtLeast(conn, rest, 1) // without it the beginning has to do
	return answer{text: append(head, rest[:n]...)}
}

// askMechanisms asks for a login of a kind that does not exist. A listener with
// logins names those that it has.
func askMechanisms(conn net.Conn) (mechanisms []string, loginless bool) {
	const none = "?"
	body := append(binary.BigEndian.AppendUint16(nil, uint16(len(none))), none...)
	found := ask(conn, kafkaRequest(keySASLHandshake, 1, body))
	if !found.kafka || len(found.text) < 6 {
		return nil, false
	}
	code, count, rest := binary.BigEndian.Uint16(found.text), binary.BigEndian.Uint32(found.text[2:]), found.text[6:]
	for range min(count, 100) {
		if len(rest) < 2 || len(rest) < 2+int(binary.BigEndian.Uint16(rest)) {
			break
		}
		n := 2 + int(binary.BigEndian.Uint16(rest))
		mechanisms, rest = append(mechanisms, string(rest[2:n])), rest[n:]
	}
	return mechanisms, code == codeIllegalSASL
}

// kafkaRequest is a request with the header of version 1.
func kafkaRequest(key, version uint16, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, key)
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint32(b, probeCorrelation)
	b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
	b = append(append(b, clientID...), body...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}
