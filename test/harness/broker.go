//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Broker is one broker of a cluster.
type Broker struct {
	kafka *Kafka
	index int
	dir   string
	proxy *Proxy // nil unless KafkaConfig.Proxied
	ports struct {
		internal   int // for the harness and the other brokers
		client     int
		secure     int
		mtls       int
		controller int
	}
	process *Process
}

// newBroker finds a place and ports for a broker, and starts its proxy.
func newBroker(k *Kafka, index int) (*Broker, error) {
	b := &Broker{kafka: k, index: index}
	var err error
	if b.dir, err = tempDir("kafka"); err != nil {
		return nil, err
	}
	for _, port := range []*int{&b.ports.internal, &b.ports.client, &b.ports.secure, &b.ports.mtls, &b.ports.controller} {
		if *port, err = freePort(); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	if k.config.Proxied {
		if b.proxy, err = StartProxy(localAddr(b.ports.client)); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

// nodeID is how Kafka knows the broker.
func (b *Broker) nodeID() int32 { return int32(b.index) + 1 }

// Index is the broker's place in Kafka.Brokers.
func (b *Broker) Index() int { return b.index }

// Addr is the address of the plain listener, or of the proxy in front of it.
func (b *Broker) Addr() string {
	if b.proxy != nil {
		return b.proxy.Addr()
	}
	return localAddr(b.ports.client)
}

// Proxy is what stands in front of the broker if KafkaConfig.Proxied is set.
func (b *Broker) Proxy() *Proxy { return b.proxy }

// LogPath is the file that holds what the broker has logged, of all its starts.
func (b *Broker) LogPath() string { return filepath.Join(b.dir, "log") }

// Process is the broker's process since the last start.
func (b *Broker) Process() *Process { return b.process }

// Running reports whether the broker's process is there.
func (b *Broker) Running() bool { return b.process != nil && b.process.Running() }

// Stop shuts the broker down in order: it hands over what it leads. When ctx
// ends first, it is still shutting down.
func (b *Broker) Stop(ctx context.Context) (time.Duration, error) {
	_, took, err := b.process.Stop(ctx, syscall.SIGTERM)
	return took, err
}

// Kill ends the broker with SIGKILL.
func (b *Broker) Kill() error { return b.process.Kill() }

// Pause stops the broker with SIGSTOP; its connections stay.
func (b *Broker) Pause() error { return b.process.Pause() }

// Resume lets a paused broker go on.
func (b *Broker) Resume() error { return b.process.Resume() }

// Start starts a broker that was stopped or killed, on the same ports and data,
// and waits until it is a member of the cluster again. It needs a majority of
// the brokers; to start several, see Kafka.Each.
func (b *Broker) Start(ctx context.Context) error {
	if b.Running() {
		return fmt.Errorf("broker %d is running already", b.index)
	}
	begun := time.Now()
	if err := b.launch(); err != nil {
		return err
	}
	if err := poll(ctx, patience, 50*time.Millisecond, b.member); err != nil {
		return fmt.Errorf("broker %d is not back: %w", b.index, err)
	}
	say(b.kafka.config.Progress, "broker %d is back after %s", b.index, took(begun))
	return nil
}

// MoveProxy gives a broker that is stopped another proxy, at another address,
// which it advertises from its next start on: brokers that were moved to other
// machines. The old address is refused.
func (b *Broker) MoveProxy() error {
	if b.proxy == nil || b.Running() {
		return errors.New("only a stopped broker behind a proxy can be moved")
	}
	if err := b.proxy.Close(); err != nil {
		return err
	}
	var err error
	if b.proxy, err = StartProxy(localAddr(b.ports.client)); err != nil {
		return err
	}
	return os.WriteFile(b.propertiesPath(), []byte(b.properties()), 0o644)
}

// DirectAddr is the address of the plain listener itself, proxy or not.
func (b *Broker) DirectAddr() string { return localAddr(b.ports.client) }

// member returns nil if the broker itself answers and the cluster knows it.
func (b *Broker) member(ctx context.Context) error {
	if !b.Running() {
		return fmt.Errorf("%w: broker %d ended as it started:\n%s", errGiveUp, b.index, tail(b.LogPath(), 20))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := answers(ctx, b.kafka.client.Broker(int(b.nodeID()))); err != nil {
		return err
	}
	metadata, err := b.kafka.Admin().BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	for _, known := range metadata.Brokers {
		if known.NodeID == b.nodeID() {
			return nil
		}
	}
	return fmt.Errorf("broker %d has not joined", b.index)
}

// launch starts the process.
func (b *Broker) launch() error {
	var err error
	b.process, err = StartProcess(Command{
		Path: b.kafka.image.java, Args: b.java(b.kafka.config.JVM, "kafka.Kafka", b.propertiesPath()),
		Dir: b.dir, Stdout: b.LogPath(), Stderr: b.LogPath(),
	})
	return err
}

// java is the command line of a Java program of Kafka's.
func (b *Broker) java(options []string, program string, args ...string) []string {
	image := b.kafka.image
	line := append(slices.Clone(options),
		"-XX:+IgnoreUnrecognizedVMOptions", "-XX:-UsePerfData", "-Djava.io.tmpdir="+b.dir,
		"-Dlog4j2.configurationFile="+filepath.Join(image.jars, loggingFile))
	if image.warm != "" {
		line = append(line, "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-XX:SharedArchiveFile="+filepath.Join(image.warm, warmClasses))
	}
	return append(append(line, "-cp", filepath.Join(image.jars, "*"), program), args...)
}

// format makes the broker's data directory. What StorageTool would leave in it
// is known since the first time, unless there are passwords to store.
func (b *Broker) format(ctx context.Context) error {
	if err := os.WriteFile(b.propertiesPath(), []byte(b.properties()), 0o644); err != nil {
		return err
	}
	image, data := b.kafka.image, filepath.Join(b.dir, "data")
	if image.warm == "" || len(b.kafka.config.Users) > 0 {
		args := []string{"format", "-t", b.kafka.clusterID, "-c", b.propertiesPath()}
		for _, u := range b.kafka.config.Users {
			for _, mechanism := range scramMechanisms {
				args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, u.Name, u.Password))
			}
		}
		return run(ctx, b.dir, nil, append([]string{image.java}, b.java(defaultJVM(), "kafka.tools.StorageTool", args...)...)...)
	}
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	meta := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", b.kafka.clusterID, b.nodeID(), randomID())
	return errors.Join(
		os.WriteFile(filepath.Join(data, "meta.properties"), []byte(meta), 0o644),
		copyFile(filepath.Join(image.warm, warmCheckpoint), filepath.Join(data, warmCheckpoint), 0o644),
	)
}

var scramMechanisms = []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}

func (b *Broker) propertiesPath() string { return filepath.Join(b.dir, "server.properties") }

// properties is the broker's configuration.
func (b *Broker) properties() string {
	k := b.kafka
	replicas := strconv.Itoa(len(k.brokers))
	inSync := strconv.Itoa(len(k.brokers)/2 + 1)
	var voters []string
	for _, other := range k.brokers {
		voters = append(voters, fmt.Sprintf("%d@%s", other.nodeID(), localAddr(other.ports.controller)))
	}
	properties := map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  strconv.Itoa(int(b.nodeID())),
		"controller.listener.names":                "CONTROLLER",
		"controller.quorum.voters":                 strings.Join(voters, ","),
		"listeners":                                fmt.Sprintf("INTERNAL://%s,CLIENT://%s,CONTROLLER://%s", localAddr(b.ports.internal), localAddr(b.ports.client), localAddr(b.ports.controller)),
		"advertised.listeners":                     fmt.Sprintf("INTERNAL://%s,CLIENT://%s", localAddr(b.ports.internal), b.Addr()),
		"inter.broker.listener.name":               "INTERNAL",
		"listener.security.protocol.map":           "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT,SECURE:SASL_SSL,MTLS:SSL",
		"log.dirs":                                 filepath.Join(b.dir, "data"),
		"auto.create.topics.enable":                strconv.FormatBool(k.config.AutoCreateTopics),
		"default.replication.factor":               replicas,
		"min.insync.replicas":                      inSync,
		"offsets.topic.num.partitions":             "6",
		"offsets.topic.replication.factor":         replicas,
		"transaction.state.log.num.partitions":     "6",
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            inSync,
		"group.initial.rebalance.delay.ms":         "0",
		// A broker that was killed is missed after 3 s instead of 9, and may
		// join again as soon.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
	}
	if k.certs != nil {
		b.secure(properties)
	}
	maps.Copy(properties, k.config.Properties)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&text, "%s=%s\n", name, properties[name])
	}
	return text.String()
}

// secure adds the listeners with encryption and passwords, and access control.
func (b *Broker) secure(properties map[string]string) {
	var users strings.Builder
	for _, u := range b.kafka.config.Users {
		fmt.Fprintf(&users, " user_%s=%q", u.Name, u.Password)
	}
	const security = "org.apache.kafka.common.security."
	for _, listeners := range []string{"listeners", "advertised.listeners"} {
		properties[listeners] += fmt.Sprintf(",SECURE://%s,MTLS://%s", localAddr(b.ports.secure), localAddr(b.ports.mtls))
	}
	maps.Copy(properties, map[string]string{
		"sasl.enabled.mechanisms":                             strings.Join(append([]string{"PLAIN"}, scramMechanisms...), ","),
		"listener.name.secure.plain.sasl.jaas.config":         security + "plain.PlainLoginModule required" + users.String() + ";",
		"listener.name.secure.scram-sha-256.sasl.jaas.config": security + "scram.ScramLoginModule required;",
		"listener.name.secure.scram-sha-512.sasl.jaas.config": security + "scram.ScramLoginModule required;",
		"ssl.keystore.type":                                   "PEM",
		"ssl.keystore.location":                               b.kafka.certs.serverKeyStore,
		"ssl.truststore.type":                                 "PEM",
		"ssl.truststore.location":                             b.kafka.certs.CA,
		"listener.name.mtls.ssl.client.auth":                  "required",
		"listener.name.mtls.ssl.principal.mapping.rules":      "RULE:^CN=([^,]+).*$/$1/",
		"authorizer.class.name":                               "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                                         "User:ANONYMOUS",
	})
}

// close ends the broker and removes its data.
func (b *Broker) close() error {
	var err error
	if b.process != nil {
		err = b.process.Kill()
	}
	if b.proxy != nil {
		err = errors.Join(err, b.proxy.Close())
	}
	return errors.Join(err, removeTemp(b.dir))
}
