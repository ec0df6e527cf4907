//go:build linux || darwin

package harness

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// KafkaConfig says what StartKafka starts. The zero value is one broker.
type KafkaConfig struct {
	// Brokers is how many brokers there are, 1 or 3; 0 is 1. With three,
	// topics have three replicas, of which two must be in sync.
	Brokers int
	// Proxied puts a Proxy in front of each broker: Addrs and the addresses
	// that the brokers advertise are the proxies'. The harness's own clients
	// and the brokers among themselves go directly.
	Proxied bool
	// AutoCreateTopics has a topic created when a client first asks for it.
	AutoCreateTopics bool
	// Users opens the listeners of SecureAddrs and MTLSAddrs and turns on
	// access control: these users have no rights but those given with Allow.
	// The plain listener stays open to everybody for everything.
	Users []User
	// Properties go into server.properties of each broker, over the harness's
	// own.
	Properties map[string]string
	// JVM are the options of Java; nil is for a quick start and little memory.
	JVM []string
	// Progress receives a line for each thing that takes time; nil is standard
	// error.
	Progress io.Writer
}

// User is known to the brokers by SCRAM-SHA-256, SCRAM-SHA-512 and PLAIN.
type User struct{ Name, Password string }

// defaultJVM starts quickly on a small machine. Nothing may be left in the
// system's temporary directory by a broker that is killed.
func defaultJVM() []string {
	return []string{"-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
}

// Kafka is a cluster in KRaft mode; each broker is a controller too. Its
// methods may be called from any goroutine, but only one at a time may start or
// stop a given broker.
type Kafka struct {
	config    KafkaConfig
	image     kafkaImage
	clusterID string
	brokers   []*Broker
	certs     *Certificates // nil without Users
	client    *kgo.Client
}

// StartKafka starts a cluster and waits until topics can be created. The caller
// closes it.
func StartKafka(ctx context.Context, config KafkaConfig) (*Kafka, error) {
	if config.Brokers == 0 {
		config.Brokers = 1
	}
	if config.Brokers != 1 && config.Brokers != 3 {
		return nil, fmt.Errorf("a cluster has 1 or 3 brokers, got %d", config.Brokers)
	}
	if config.JVM == nil {
		config.JVM = defaultJVM()
	}
	image, err := kafkaImageFor(ctx, config.Progress)
	if err != nil {
		return nil, err
	}
	k := &Kafka{config: config, image: image}
	if err := k.start(ctx); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// start makes and starts all brokers.
func (k *Kafka) start(ctx context.Context) error {
	begun := time.Now()
	k.clusterID = randomID()
	if len(k.config.Users) > 0 {
		var err error
		if k.certs, err = NewCertificates(); err != nil {
			return err
		}
	}
	for i := range k.config.Brokers {
		b, err := newBroker(k, i)
		if err != nil {
			return err
		}
		k.brokers = append(k.brokers, b)
	}
	var err error
	k.client, err = kgo.NewClient(k.clientOptions()...)
	if err != nil {
		return err
	}
	starting, startCtx := errgroup.WithContext(ctx)
	for _, b := range k.brokers {
		starting.Go(func() error {
			if err := b.format(startCtx); err != nil {
				return err
			}
			return b.launch()
		})
	}
	if err := starting.Wait(); err != nil {
		return err
	}
	if err := k.awaitReady(ctx); err != nil {
		return fmt.Errorf("%w; the end of a broker's log:\n%s", err, tail(k.brokers[0].LogPath(), 20))
	}
	say(k.config.Progress, "Apache Kafka %s, %d broker(s), ready at %s after %s", KafkaVersion, len(k.brokers), k.brokers[0].Addr(), took(begun))
	return nil
}

// clientOptions are those of every client of the harness. It goes directly to
// the brokers and does not wait long for one that is paused.
func (k *Kafka) clientOptions() []kgo.Opt {
	var seeds []string
	for _, b := range k.brokers {
		seeds = append(seeds, localAddr(b.ports.internal))
	}
	return []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.DialTimeout(2 * time.Second),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.RetryTimeout(20 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
	}
}

// awaitReady waits until all brokers are members and lead partitions.
func (k *Kafka) awaitReady(ctx context.Context) error {
	if err := poll(ctx, patience, 50*time.Millisecond, k.allMembers); err != nil {
		return fmt.Errorf("the cluster is not ready: %w", err)
	}
	const probe = "harness-ready"
	if err := k.CreateTopic(ctx, probe, TopicConfig{Partitions: len(k.brokers)}); err != nil {
		return err
	}
	return k.DeleteTopic(ctx, probe)
}

// allMembers returns nil if metadata shows every broker.
func (k *Kafka) allMembers(ctx context.Context) error {
	for _, b := range k.brokers {
		if !b.Running() {
			return fmt.Errorf("%w: broker %d ended as it started:\n%s", errGiveUp, b.index, tail(b.LogPath(), 20))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	metadata, err := k.Admin().BrokerMetadata(ctx)
	if err == nil && len(metadata.Brokers) != len(k.brokers) {
		err = fmt.Errorf("%d of %d brokers have joined", len(metadata.Brokers), len(k.brokers))
	}
	return err
}

// Admin returns a client for what the methods of Kafka do not offer.
func (k *Kafka) Admin() *kadm.Client { return kadm.NewClient(k.client) }

// Broker returns the broker with an index from 0.
func (k *Kafka) Broker(i int) *Broker { return k.brokers[i] }

// Brokers returns all brokers.
func (k *Kafka) Brokers() []*Broker { return slices.Clone(k.brokers) }

// Addrs returns the addresses of the plain listeners, for a client's list of
// bootstrap servers.
func (k *Kafka) Addrs() []string { return k.addrs((*Broker).Addr) }

// SecureAddrs returns the addresses of the SASL_SSL listeners.
func (k *Kafka) SecureAddrs() []string {
	return k.addrs(func(b *Broker) string { return localAddr(b.ports.secure) })
}

// MTLSAddrs returns the addresses of the listeners that demand a client
// certificate.
func (k *Kafka) MTLSAddrs() []string {
	return k.addrs(func(b *Broker) string { return localAddr(b.ports.mtls) })
}

func (k *Kafka) addrs(of func(*Broker) string) []string {
	var addrs []string
	for _, b := range k.brokers {
		addrs = append(addrs, of(b))
	}
	return addrs
}

// Certificates returns what a client of SecureAddrs and MTLSAddrs needs.
func (k *Kafka) Certificates() *Certificates { return k.certs }

// Each calls do with every broker at once and returns the errors: for instance
// k.Each((*Broker).Pause) takes the whole cluster away.
func (k *Kafka) Each(do func(*Broker) error) error {
	var all errgroup.Group
	for _, b := range k.brokers {
		all.Go(func() error { return do(b) })
	}
	return all.Wait()
}

// Close ends the cluster and removes its data.
func (k *Kafka) Close() error {
	if k.client != nil {
		k.client.Close()
	}
	err := k.Each((*Broker).close)
	if k.certs != nil {
		err = errors.Join(err, k.certs.remove())
	}
	return err
}

// randomID makes an id in the form of Kafka's UUIDs.
func randomID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand
	id[0] &= 0x7f           // a leading dash would look like an option
	return base64.RawURLEncoding.EncodeToString(id[:])
}
