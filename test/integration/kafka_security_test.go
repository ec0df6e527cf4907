//go:build linux || darwin

package integration

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// transactionalIDs are those that the relay uses.
const transactionalIDs = "outbox-cdc."

// secureBroker starts a broker that knows two users: fencer may use the
// transactional ids, simple may not. A certificate makes a third, client.
func secureBroker(t *testing.T) *harness.Kafka {
	t.Helper()
	k := harness.NewKafka(t, harness.KafkaConfig{
		Users:      []harness.User{{Name: "fencer", Password: "secret"}, {Name: "simple", Password: "secret"}},
		Properties: map[string]string{"replica.lag.time.max.ms": "1000"},
	})
	allow := func(user string, on harness.Resource, rights ...kadm.ACLOperation) {
		t.Helper()
		if err := k.Allow(t.Context(), user, on, rights...); err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range []string{"fencer", "client"} {
		allow(user, harness.TransactionalIDs(transactionalIDs), kadm.OpWrite, kadm.OpDescribe)
	}
	for _, user := range []string{"fencer", "simple"} { // how long to look twice is in the settings
		allow(user, harness.Cluster(), kadm.OpDescribeConfigs)
	}
	return k
}

// allow gives a user rights on the topics.
func (o *outbox) allow(user string, rights ...kadm.ACLOperation) {
	o.t.Helper()
	for _, topic := range o.topics() {
		if err := o.kafka.Allow(o.t.Context(), user, harness.Topic(topic), rights...); err != nil {
			o.t.Fatal(err)
		}
	}
}

// loginAs are the flags by which a user logs in over TLS.
func (o *outbox) loginAs(user, password, mechanism string) []string {
	return []string{
		"--brokers", strings.Join(o.kafka.SecureAddrs(), ","), "--tls", "--tls-ca", o.kafka.Certificates().CA,
		"--sasl-mechanism", mechanism, "--sasl-user", user, "--sasl-password", password,
	}
}

// certified are the flags by which the certificate is the login.
func (o *outbox) certified() []string {
	certs := o.kafka.Certificates()
	return []string{
		"--brokers", strings.Join(o.kafka.MTLSAddrs(), ","), "--tls", "--tls-ca", certs.CA, "--tls-cert", certs.Cert, "--tls-key", certs.Key,
	}
}

// TestKafkaSecurity publishes to a broker that asks for encryption, for a login
// in every form, and for rights, and does with less of them.
//
// Behaviours: K10
func TestKafkaSecurity(t *testing.T) {
	k := secureBroker(t)
	t.Run("logins", func(t *testing.T) { testLogins(t, k) })
	t.Run("refused", func(t *testing.T) { testRefusedLogins(t, k) })
	t.Run("no READ", func(t *testing.T) { testNoRead(t, k) })
	t.Run("no transactional id", func(t *testing.T) { testNoTransactionalID(t, k) })
	t.Run("no WRITE", func(t *testing.T) { testNoWrite(t, k) })
}

// testLogins publishes exactly with each kind of login.
func testLogins(t *testing.T, k *harness.Kafka) {
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 1})
	for _, user := range []string{"fencer", "client"} {
		o.allow(user, kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)
	}
	for _, flags := range [][]string{
		o.loginAs("fencer", "secret", "PLAIN"), o.loginAs("fencer", "secret", "SCRAM-SHA-256"), o.loginAs("fencer", "secret", "SCRAM-SHA-512"), o.certified(),
	} {
		r := o.start(append(flags, "--fence", "require")...)
		o.insert(10)
		o.awaitDrained()
		o.insert(10)
		r.kill()
		if strings.Contains(r.Stderr(), "secret") {
			t.Errorf("the log holds the password:\n%s", r.Stderr())
		}
	}
	r := o.start(o.certified()...)
	o.awaitDrained()
	r.stop()
	o.verify()
}

// testRefusedLogins ends with exit code 9 where waiting is of no use.
func testRefusedLogins(t *testing.T, k *harness.Kafka) {
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 1})
	o.allow("fencer", kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)
	certs := k.Certificates()
	mistrusting := append(o.loginAs("fencer", "secret", "PLAIN"), "--tls-ca", certs.OtherCA)
	nobody := append(o.certified(), "--tls-cert", "", "--tls-key", "")
	for _, c := range []struct {
		name  string
		flags []string
		texts []string
	}{
		{"wrong password by PLAIN", o.loginAs("fencer", "wrong-password", "PLAIN"), []string{"--sasl-user"}},
		{"wrong password by SCRAM", o.loginAs("fencer", "wrong-password", "SCRAM-SHA-256"), []string{"--sasl-user"}},
		{"unknown user", o.loginAs("nobody", "secret", "SCRAM-SHA-512"), []string{"--sasl-user"}},
		{"another authority", mistrusting, []string{"--tls-ca"}},
		{"no certificate", nobody, []string{"--tls-cert"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o.t = t
			r := o.launch(c.flags...)
			r.expectExit(patience, 9, c.texts...)
			if strings.Contains(r.Stderr(), "wrong-password") {
				t.Errorf("standard error holds the password:\n%s", r.Stderr())
			}
		})
	}
	o.t = t
	o.verify()
}

// testNoRead publishes without the right to read: at least once, as the log
// says, unless that is not enough.
func testNoRead(t *testing.T, k *harness.Kafka) {
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 2})
	o.allow("fencer", kadm.OpWrite, kadm.OpDescribe)
	login := o.loginAs("fencer", "secret", "PLAIN")
	stop := o.load(1)
	r := o.start(login...)
	o.awaitCommitted(100)
	r.awaitLog("partitions are acquired in a weaker way", 1)
	line := r.log("partitions are acquired in a weaker way")[0]
	if reason := line.text("reason"); line.text("guarantee") != "at least once" || !strings.Contains(reason, "READ") || !strings.Contains(reason, o.topic("order")) {
		t.Errorf("the log says %v", line)
	}
	r.kill()
	stop()
	demanding := o.launch(append(login, "--fence", "require")...)
	demanding.expectExit(patience, 9, "READ", o.topic("order"))
	r = o.start(login...)
	o.awaitDrained()
	r.stop()
	o.verifyExcept(exceptions{duplicates: "without READ, what a killed relay has sent is not recognised"})
}

// testNoTransactionalID publishes without the right to the transactional ids:
// the partitions are looked at twice, and a relay that is dead cannot have
// anything under way. Unless that is not enough.
func testNoTransactionalID(t *testing.T, k *harness.Kafka) {
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 2})
	o.allow("simple", kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)
	login := o.loginAs("simple", "secret", "SCRAM-SHA-256")
	stop := o.load(1)
	r := o.start(login...)
	r.awaitLog("partition is looked at twice", 2)
	o.awaitRecords(100)
	line := r.log("partitions are acquired in a weaker way")[0]
	if reason := line.text("reason"); !strings.Contains(reason, "transactional id") || !strings.Contains(reason, transactionalIDs) {
		t.Errorf("the log says %v", line)
	}
	r.kill()
	stop()
	demanding := o.launch(append(login, "--fence", "require")...)
	demanding.expectExit(patience, 9, "transactional id", transactionalIDs)
	r = o.start(login...)
	o.awaitDrained()
	r.stop()
	o.verify()
}

// testNoWrite names the right that is missing, and goes on when it is given.
func testNoWrite(t *testing.T, k *harness.Kafka) {
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 1})
	o.allow("fencer", kadm.OpRead, kadm.OpDescribe)
	r := o.start(o.loginAs("fencer", "secret", "PLAIN")...)
	o.insert(10)
	r.awaitLog("partition stands still", 1)
	if line := r.log("partition stands still")[0]; !strings.Contains(line.text("remedy"), `WRITE and DESCRIBE on topic "`+o.topic("order")+`"`) {
		t.Errorf("the log says %v", line)
	}
	o.allow("fencer", kadm.OpWrite)
	o.awaitDrained()
	r.awaitLog("partition goes on", 1)
	r.stop()
	o.verify()
}
