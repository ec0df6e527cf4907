package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// clusterConfig is what the layer below the publisher needs to know.
type clusterConfig struct {
	// Bootstrap are the addresses to begin with, host:port. Dead ones among
	// them cost nothing but a moment.
	Bootstrap []string
	Security  Security
	// KafkaVersion is the protocol level to speak at most; each broker's own is
	// negotiated below it. Empty means 2.8.0.
	KafkaVersion string
	// AutoCreate lets the brokers create a topic that is asked for, if their
	// auto.create.topics.enable allows it.
	AutoCreate bool
	// Create says whether, and how, missing topics are made by us.
	Create CreateTopics
	Fence  Fence
	// StartTimeout is how long a transaction coordinator may be missing, while
	// the leader of the partition answers, before a partition is acquired
	// without one.
	StartTimeout time.Duration
	Log          *slog.Logger
}

// cluster is everything that is synchronous with the brokers: who they are, what
// topics look like, and the calls that acquire a partition. It does not use
// sarama.Client, whose locks let one stalled broker stop the look-ups for all
// others. All methods may be called from any goroutine, and end with their
// context.
type cluster struct {
	conf  clusterConfig
	calls *pool
	log   *slog.Logger

	mu sync.Mutex // guards the fields below
	// id is the cluster id of the first answer. An answer with another one is
	// refused: a topic of the same name there is another topic.
	id string
	// brokers maps ids to addresses, as the newest answer has them.
	brokers map[int32]string
	// controller is the broker to ask for a new topic.
	controller int32
	// turn is the broker to ask first. It moves on with every question, so that
	// one which is cut off from the others does not answer for them for long.
	turn   int
	topics map[string]topicMetadata
	// counts holds the largest partition count seen for a topic. It never goes
	// down: a broker that lags behind must not change the routing.
	counts map[topicKey]int32
}

// topicKey names one incarnation of a topic. The id is zero where the brokers
// have none.
type topicKey struct {
	name string
	id   sarama.Uuid
}

// parseKafkaVersion reads the value of --kafka-version. The oldest one accepted is
// the oldest with the requests that we use; older brokers are negotiated with
// anyway.
func parseKafkaVersion(s string) (sarama.KafkaVersion, error) {
	oldest := sarama.V2_8_0_0
	if s == "" {
		return oldest, nil
	}
	version, err := sarama.ParseKafkaVersion(s)
	if err != nil {
		return version, fmt.Errorf("--kafka-version must be a version like 2.8.0, got %q", s)
	}
	if !version.IsAtLeast(oldest) {
		return version, fmt.Errorf("--kafka-version must be at least %s (an older broker is recognised by itself), got %q", oldest, s)
	}
	return version, nil
}

// newCluster returns a cluster that has connected to nothing yet.
func newCluster(conf clusterConfig) (*cluster, error) {
	version, err := parseKafkaVersion(conf.KafkaVersion)
	if err != nil {
		return nil, err
	}
	return &cluster{
		conf:   conf,
		calls:  newPool(newSaramaConfig(version, conf.Security.SASL), conf.Security.TLS),
		log:    conf.Log,
		topics: make(map[string]topicMetadata),
		counts: make(map[topicKey]int32),
	}, nil
}

// close closes the idle connections. Calls in progress end by their contexts.
func (c *cluster) close() { c.calls.close() }

// errNoBroker is returned when no address of the cluster answers.
var errNoBroker = errors.New("no broker answers")

// foreignClusterError is an answer from another cluster than the one that this
// process has been talking to.
type foreignClusterError struct{ addr, got, want string }

func (e *foreignClusterError) Error() string {
	return fmt.Sprintf("broker %s belongs to cluster %q, not to %q as before; correct --brokers or the names behind it, or restart to use the other cluster", e.addr, e.got, e.want)
}

// anyTopic is asked about where only the brokers matter: sarama cannot ask about
// no topic, and would ask about all of them instead.
const anyTopic = "__transaction_state"

// connect learns the brokers. It fails if none answers.
func (c *cluster) connect(ctx context.Context) error {
	_, err := first(ctx, c.addresses(), func(ctx context.Context, addr string) (*sarama.MetadataResponse, error) {
		return c.metadata(ctx, addr, false, anyTopic)
	})
	return err
}

// dial opens a fresh connection to the broker for AsyncProduce, with room for
// maxOpenRequests unanswered requests. The caller owns and closes it.
func (c *cluster) dial(ctx context.Context, id int32, maxOpenRequests int) (*connection, error) {
	addr, err := c.address(id)
	if err != nil {
		return nil, err
	}
	return c.calls.open(ctx, addr, maxOpenRequests)
}

// call runs one synchronous call on a pooled connection to the broker.
func (c *cluster) call(ctx context.Context, id int32, call func(*sarama.Broker) error) error {
	addr, err := c.address(id)
	if err != nil {
		return err
	}
	return c.calls.call(ctx, addr, call)
}

// address returns where the broker listens, or an error that another look at the
// metadata may cure.
func (c *cluster) address(id int32) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr, ok := c.brokers[id]
	if !ok {
		return "", fmt.Errorf("broker %d: %w", id, sarama.ErrBrokerNotAvailable)
	}
	return addr, nil
}

// addresses returns all there is to ask, beginning with another broker each
// time. The names of --brokers come last, and are resolved again whenever they
// are dialed: when all brokers have moved, they are what still leads to them.
func (c *cluster) addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addrs []string
	ids := slices.Sorted(maps.Keys(c.brokers))
	for i := range ids {
		addrs = append(addrs, c.brokers[ids[(c.turn+i)%len(ids)]])
	}
	c.turn++
	return unique(append(addrs, c.conf.Bootstrap...))
}

// brokerAddresses returns the addresses of the brokers known by id, and learns
// them first if there are none.
func (c *cluster) brokerAddresses(ctx context.Context) ([]string, error) {
	addrs := c.knownAddresses()
	if len(addrs) > 0 {
		return addrs, nil
	}
	err := c.connect(ctx)
	return c.knownAddresses(), err
}

func (c *cluster) knownAddresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return unique(slices.Collect(maps.Values(c.brokers)))
}

// unique drops repeated addresses and keeps the order.
func unique(addrs []string) []string {
	seen := make(map[string]bool, len(addrs))
	return slices.DeleteFunc(addrs, func(addr string) bool {
		repeated := seen[addr]
		seen[addr] = true
		return repeated
	})
}

// metadata asks one broker and takes in what it says about the brokers.
func (c *cluster) metadata(ctx context.Context, addr string, create bool, topics ...string) (*sarama.MetadataResponse, error) {
	request := sarama.NewMetadataRequest(c.calls.conf.Version, topics)
	request.AllowAutoTopicCreation = create
	return c.askMetadata(ctx, addr, *request)
}

// askMetadata sends a request of its own, since sarama lowers its version to the
// broker's.
func (c *cluster) askMetadata(ctx context.Context, addr string, request sarama.MetadataRequest) (*sarama.MetadataResponse, error) {
	var answer *sarama.MetadataResponse
	err := c.calls.call(ctx, addr, func(broker *sarama.Broker) (err error) {
		answer, err = broker.GetMetadata(&request)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.takeIn(addr, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

func (c *cluster) takeIn(addr string, answer *sarama.MetadataResponse) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer.ClusterID != nil {
		if c.id != "" && c.id != *answer.ClusterID {
			return &foreignClusterError{addr: addr, got: *answer.ClusterID, want: c.id}
		}
		c.id = *answer.ClusterID
	}
	if len(answer.Brokers) == 0 {
		return fmt.Errorf("broker %s: %w", addr, sarama.ErrBrokerNotAvailable)
	}
	c.controller = answer.ControllerID
	c.brokers = make(map[int32]string, len(answer.Brokers))
	for _, broker := range answer.Brokers {
		c.brokers[broker.ID()] = broker.Addr()
	}
	return nil
}
