package app

import (
	"time"

	"github.com/spf13/pflag"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// policyFlags are the defaults of what a Kustomization can say in spec.rollout or in annotations.
type policyFlags struct {
	order, retain, max, onFailure string
	soak                          time.Duration
}

func (f *policyFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.order, "default-prune-order", string(v1.PruneAfterHealthy),
		"When to prune where a Kustomization doesn't say: 'AfterHealthy', or 'AfterApply' as Flux does.")
	fs.StringVar(&f.retain, "default-retain", string(v1.RetainInUse),
		"What to keep from pruning where a Kustomization doesn't say: 'InUse', 'History' or 'None'.")
	fs.StringVar(&f.onFailure, "default-on-failure", string(v1.OnFailureHold),
		"What follows a revision that fails its verification where a Kustomization doesn't say: 'Hold' or 'Rollback'.")
	fs.StringVar(&f.max, "default-max-prune", "",
		"The count, or percentage of the inventory, above which a prune waits for confirmation where a Kustomization doesn't say; none when empty.")
	fs.DurationVar(&f.soak, "default-soak", 0,
		"How long a revision has to stay healthy before what it replaced may be pruned, where a Kustomization doesn't say.")
}

// defaults checks the flags and turns them into a policy.
func (f *policyFlags) defaults() (policy.Defaults, error) {
	limit, err := policy.ParseLimit(f.max)
	if err != nil {
		return policy.Defaults{}, usageErrorf("--default-max-prune is %q: %v", f.max, err)
	}
	defaults := policy.Defaults{Order: v1.PruneOrder(f.order), Retain: v1.RetainPolicy(f.retain), Max: limit, Soak: f.soak,
		OnFailure: v1.OnFailure(f.onFailure)}
	if err := defaults.Check(); err != nil {
		return policy.Defaults{}, usageErrorf("--default-%v", err)
	}
	return defaults, nil
}
