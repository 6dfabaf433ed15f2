package kustomization

import (
	"context"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
)

// maxRemoteTime bounds a build that fetches something. One such build runs at a time, so that a host that does not answer keeps
// others of its kind waiting for as long.
const maxRemoteTime = time.Minute

// busyLook is how soon to try again to build what fetches something, while another such build runs.
const busyLook = 3 * time.Second

// buildOptions are the settings of a build of a Kustomization, or of a variant of it, from the root.
func (p *pass) buildOptions(ctx context.Context, root string, ks *v1.Kustomization, in inputs) build.Options {
	options := build.Options{NoRemoteBases: p.NoRemoteBases, Substitution: in.substitution}
	if p.RemoteBuilds != nil {
		ks := ks.DeepCopy()
		options.Remote = func(decrypted map[string][]byte) (build.Rendered, error) {
			return p.RemoteBuilds.Render(ctx, root, ks, build.Options{NoRemoteBases: p.NoRemoteBases, Decrypted: decrypted},
				min(p.timeout(), maxRemoteTime))
		}
	}
	return options
}

// isOutdated tells whether the last build fetched something so long ago that it has to be fetched again: when a person asks, and
// once in an interval, together with the next apply, which the jitter may put before its end.
func (p *pass) isOutdated() bool {
	interval := p.ks.Spec.Interval.Duration
	if !p.mem.built.Remote {
		return false
	}
	age := p.now.Sub(p.mem.builtAt)
	return p.asked || interval > 0 && (age >= interval || 2*age >= interval && !p.now.Before(p.mem.nextApply))
}
