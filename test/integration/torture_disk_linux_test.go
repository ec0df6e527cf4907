package integration

import (
	"errors"
	"math/rand/v2"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// diskFaults happen to the disks of brokers.
func diskFaults() []*fault {
	return []*fault{{
		name: "disk of a broker full", weight: 2, on: []thing{theBrokers}, standing: true,
		does: "no file of it can grow (RLIMIT_FSIZE): it gives up its only log directory and ends", undone: "it is started, with room enough",
		inject: func(x *torture, random *rand.Rand) func() {
			b := x.anyBroker(random)
			x.must(b.FillDisk())
			return func() {
				harness.Eventually(x.o.t, recoveryLimit, func() error {
					if b.Running() {
						return errors.New("the broker goes on with a full disk")
					}
					return nil
				})
				x.startBroker(b)
			}
		},
	}}
}
