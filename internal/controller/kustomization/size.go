package kustomization

import (
	"encoding/json"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/telemetry"
)

const (
	// maxObject is how large an object may be that the store of an API server takes: etcd's default for a request.
	maxObject = 1536 << 10
	// reserved is for what a rollout adds to the status after the inventory was recorded: conditions, history, what is kept. An
	// inventory that left no room for it would be stored, and the result of the rollout not.
	reserved = 160 << 10
	// entryOverhead is what an entry takes besides its id and version: {"id":"","v":""},
	entryOverhead = 17
	// largeShare is the share of the room from which on a person is warned.
	largeShare = 0.8
)

// inventorySize is what an inventory takes in the stored object.
func inventorySize(inv inventory.Inventory) int {
	size := 0
	for _, ref := range inv.Encode().Entries {
		size += len(ref.ID) + len(ref.Version) + entryOverhead
	}
	return size
}

// room is what the inventory may take.
func (p *pass) room() int {
	limit := p.MaxObjectSize
	if limit <= 0 {
		limit = maxObject
	}
	bare := p.ks.DeepCopy()
	bare.Status = v1.KustomizationStatus{}
	content, err := json.Marshal(bare)
	if err != nil {
		return limit - reserved // an object that was read can be written
	}
	return limit - reserved - len(content)
}

// checkSize refuses a build whose inventory can't be stored, before anything of it is applied: what is not recorded would never
// be pruned.
func (p *pass) checkSize() *outcome {
	size, room := inventorySize(p.inventory), p.room()
	if size <= room {
		return nil
	}
	return p.tooLarge(fmt.Errorf("it takes %d KiB, and there is room for %d KiB", size>>10, room>>10))
}

// tooLarge ends a pass whose inventory can't be stored. What could not be stored must not be written again with the news about
// it, nor may the revision count as built.
func (p *pass) tooLarge(err error) *outcome {
	objects := p.inventory.Len()
	p.inventory, p.rollout = inventory.Decode(p.before.Status.Inventory), p.rolloutBefore()
	return p.failed(meta.ReconciliationFailedReason, fmt.Errorf("the inventory of %d objects is too large to be stored: "+
		"nothing of this revision is applied or pruned, split the Kustomization: %w", objects, err))
}

// reportSize measures the inventory, and warns once when it comes near to what can be stored.
func (p *pass) reportSize() {
	share := float64(inventorySize(p.inventory)) / float64(max(1, p.room()))
	telemetry.InventorySize(p.ks.Namespace, p.ks.Name, share)
	if share <= largeShare {
		conditions.Delete(p.ks, v1.LargeInventoryCondition)
		return
	}
	if conditions.IsTrue(p.ks, v1.LargeInventoryCondition) {
		return
	}
	message := fmt.Sprintf("the inventory of %d objects takes more than %d%% of what can be stored: a revision with many more objects will be "+
		"refused, split the Kustomization", p.inventory.Len(), int(100*largeShare))
	p.event(warning, v1.ReasonNearLimit, message)
	conditions.MarkTrue(p.ks, v1.LargeInventoryCondition, v1.ReasonNearLimit, "%s", message)
}
