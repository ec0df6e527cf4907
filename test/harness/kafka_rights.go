//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Resource is what a right is about.
type Resource struct {
	kind    kmsg.ACLResourceType
	name    string
	pattern kadm.ACLPattern
}

// Topic is the topic of a name.
func Topic(name string) Resource {
	return Resource{kmsg.ACLResourceTypeTopic, name, kadm.ACLPatternLiteral}
}

// TransactionalIDs are all transactional ids with a prefix.
func TransactionalIDs(prefix string) Resource {
	return Resource{kmsg.ACLResourceTypeTransactionalId, prefix, kadm.ACLPatternPrefixed}
}

// Cluster is the cluster itself.
func Cluster() Resource {
	return Resource{kmsg.ACLResourceTypeCluster, "kafka-cluster", kadm.ACLPatternLiteral}
}

// Allow gives a user rights. They hold on every running broker when it
// returns.
func (k *Kafka) Allow(ctx context.Context, user string, on Resource, operations ...kadm.ACLOperation) error {
	results, err := k.Admin().CreateACLs(ctx, on.acl(user, operations))
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		return err
	}
	return k.awaitRights(ctx, user, on, func(have int) bool { return have >= len(operations) })
}

// Forbid takes back all rights of a user on a resource.
func (k *Kafka) Forbid(ctx context.Context, user string, on Resource) error {
	results, err := k.Admin().DeleteACLs(ctx, on.acl(user, []kadm.ACLOperation{kadm.OpAny}))
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		return err
	}
	return k.awaitRights(ctx, user, on, func(have int) bool { return have == 0 })
}

func (r Resource) acl(user string, operations []kadm.ACLOperation) *kadm.ACLBuilder {
	acl := kadm.NewACLs()
	switch r.kind {
	case kmsg.ACLResourceTypeTopic:
		acl = acl.Topics(r.name)
	case kmsg.ACLResourceTypeCluster:
		acl = acl.Clusters()
	default:
		acl = acl.TransactionalIDs(r.name)
	}
	return acl.Allow(principal(user)).AllowHosts("*").ResourcePatternType(r.pattern).Operations(operations...)
}

func principal(user string) string { return "User:" + user }

// awaitRights waits until every running broker knows as many rights as enough
// says.
func (k *Kafka) awaitRights(ctx context.Context, user string, on Resource, enough func(have int) bool) error {
	return poll(ctx, patience, 10*time.Millisecond, func(ctx context.Context) error {
		for _, b := range k.brokers {
			if !b.Running() {
				continue
			}
			have, err := b.rights(ctx, user, on)
			if err != nil {
				return err
			}
			if !enough(have) {
				return fmt.Errorf("broker %d knows of %d rights of %s on %s", b.index, have, user, on.name)
			}
		}
		return nil
	})
}

// rights asks this very broker how many rights a user has on a resource.
func (b *Broker) rights(ctx context.Context, user string, on Resource) (int, error) {
	request := kmsg.NewDescribeACLsRequest()
	request.ResourceType = on.kind
	request.ResourceName = &on.name
	request.ResourcePatternType = on.pattern
	request.Principal = kmsg.StringPtr(principal(user))
	request.Operation = kadm.OpAny
	request.PermissionType = kmsg.ACLPermissionTypeAny
	response, err := request.RequestWith(ctx, b.kafka.client.Broker(int(b.nodeID())))
	if err != nil {
		return 0, err
	}
	have := 0
	for _, resource := range response.Resources {
		have += len(resource.ACLs)
	}
	return have, kerr.ErrorForCode(response.ErrorCode)
}
