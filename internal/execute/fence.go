package execute

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fenceEvery is how long an answer of the fence is good for. Writes follow each other faster than that, unless the process was
// stopped in between or the API server held one back.
const fenceEvery = time.Second

// fence asks whether this process may still write. One is used for one apply, whose writes follow one another.
type fence struct {
	ask func(context.Context) error

	mu   sync.Mutex
	last time.Time
	// err is the answer that ended the apply.
	err error
}

// check asks if the last answer is too old.
func (f *fence) check(ctx context.Context) error {
	if f == nil || f.ask == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || time.Since(f.last) < fenceEvery {
		return f.err
	}
	if err := f.ask(ctx); err != nil {
		f.err = err
		return err
	}
	f.last = time.Now()
	return nil
}

// Patch asks the fence before it writes, and withholds what the API server says about values. A dry-run writes nothing.
func (c *primedClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	var options client.PatchOptions
	options.ApplyOptions(opts)
	if len(options.DryRun) == 0 {
		if err := c.fence.check(ctx); err != nil {
			return err
		}
	}
	err := c.Client.Patch(ctx, obj, patch, opts...)
	if err == nil && len(options.DryRun) == 0 && patch.Type() == types.ApplyPatchType {
		c.jobs.note(obj)
	}
	return Withheld(err, obj)
}
