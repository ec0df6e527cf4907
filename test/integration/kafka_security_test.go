//go:build linux || darwin

package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// transactionalIDs are those that the relay uses.
const transactionalIDs = "outbox-cdc."

// secureBroker starts a broker that knows three users: fencer may use the
// transactional ids, simple may not, least may nothing at all. A certificate makes
// a fourth, client.
func secureBroker(t *testing.T) *harness.Kafka {
	t.Helper()
	k := harness.NewKafka(t, harness.KafkaConfig{
		Users: []harness.User{
			{Name: "fencer", Password: "secret"}, {Name: "simple", Password: "secret"}, {Name: "least", Password: "secret"},
		},
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
// Behaviours: K10, K11
func TestKafkaSecurity(t *testing.T) {
	k := secureBroker(t)
	t.Run("logins", func(t *testing.T) { testLogins(t, k) })
	t.Run("no READ", func(t *testing.T) { testNoRead(t, k) })
	t.Run("no transactional id", func(t *testing.T) { testNoTransactionalID(t, k) })
	t.Run("no WRITE", func(t *testing.T) { testNoWrite(t, k) })
	t.Run("least rights", func(t *testing.T) { testLeastRights(t, k) })
	t.Run("certificate renewed", func(t *testing.T) { testCertificateRenewed(t, k) }) // restarts the broker
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

// testLeastRights publishes with WRITE and DESCRIBE on the topics and nothing else:
// at least once, as the log says, with each right that would make it more.
func testLeastRights(t *testing.T, k *harness.Kafka) {
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 2})
	o.allow("least", kadm.OpWrite, kadm.OpDescribe)
	r := o.start(o.loginAs("least", "secret", "SCRAM-SHA-512")...)
	o.insert(50)
	o.awaitDrained()
	line := r.log("partitions are acquired in a weaker way")[0]
	if got := line.text("guarantee"); got != "at least once" {
		t.Errorf("the guarantee is %q, want at least once", got)
	}
	for _, right := range []string{"grant READ on it", o.topic("order"), "grant WRITE and DESCRIBE on transactional ids with prefix " + transactionalIDs} {
		if reason := line.text("reason"); !strings.Contains(reason, right) {
			t.Errorf("the reason is %q, want %q in it", reason, right)
		}
	}
	r.stop()
	o.verify()
}

// testCertificateRenewed replaces the client's certificate on disk, and its key
// some time later. Meanwhile no new connection is possible, which the log and
// readiness say with the remedy; then the relay goes on by itself.
func testCertificateRenewed(t *testing.T, k *harness.Kafka) {
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 1})
	o.allow("client", kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)
	cert, key, err := k.Certificates().Renew()
	if err != nil {
		t.Fatal(err)
	}
	r := o.start(append(o.certified(), serving...)...)
	o.insert(10)
	o.awaitDrained()
	replaceFile(t, k.Certificates().Cert, cert)
	if _, err := k.Broker(0).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	startBroker(t, k.Broker(0)) // so that the relay has to connect
	o.insert(10)
	r.awaitLog("a broker does not let us in", 1)
	line := r.log("a broker does not let us in")[0]
	if line.text("level") != "ERROR" || !strings.Contains(line.text("reason"), "--tls-cert and --tls-key") || !strings.Contains(line.text("remedy"), "replace the file") {
		t.Errorf("the log says %v", line)
	}
	r.awaitUnready(patience, "--tls-cert and --tls-key", "replace the file")
	replaceFile(t, k.Certificates().Key, key)
	o.awaitDrained()
	r.awaitReady("active")
	r.stop()
	o.verify()
}

// replaceFile puts another file in the place of one at once.
func replaceFile(t *testing.T, path string, content []byte) {
	t.Helper()
	err := os.WriteFile(path+".new", content, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}
