package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/leaderelection"
	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// ownIdentity begins the name under which holdfast holds a lease, so that it does not take its own kind for a rival.
const ownIdentity = "holdfast"

// rivalLeases are the leases of Flux's controllers that do the same work, by the name of holdfast's.
var rivalLeases = map[string]string{
	ControllerSource:        sourceComponent + leaseSuffix,
	ControllerKustomization: leaseName,
}

const leaseSuffix = "-leader-election"

// Rivals are the controllers of Flux that do the work of the options' controllers.
func (o Options) Rivals() []string {
	var names []string
	for _, controller := range o.Controllers {
		if lease, ok := rivalLeases[controller]; ok {
			names = append(names, strings.TrimSuffix(lease, leaseSuffix))
		}
	}
	return names
}

// withheld are the controllers of Flux that no build may start, and in which namespace: empty for all of them. It is as at the start:
// who was started beside Flux on purpose, or has a shard, leaves the rest to Flux and its controllers alone; who has one namespace
// has the rivals there.
func (o Options) withheld() (controllers []string, namespace string) {
	if o.Takeover || o.ShardSelector != "" {
		return nil, ""
	}
	if !o.WatchAllNamespaces {
		namespace = o.Namespace
	}
	return o.Rivals(), namespace
}

// checkRivals refuses to start beside a living controller with the same work: the two would undo each other's.
func checkRivals(ctx context.Context, reader client.Reader, o Options, now time.Time) error {
	if o.Takeover {
		return nil
	}
	alive, err := FindRivals(ctx, reader, o, now)
	if err != nil {
		return unavailableErrorf("find out whether another controller does this work: %w; "+
			"allow the controller to list leases and kustomizations, or start it with --takeover if there is none", err)
	}
	if len(alive) == 0 {
		return checkOwn(ctx, reader, o, now)
	}
	first := alive[0]
	if first.Lease != "" {
		return unavailableErrorf("%s; stop it first, such as with `%s`, leave its work to it with --controllers, "+
			"or start with --takeover if it looks after other objects", first.Text(now), first.StopCommand())
	}
	return unavailableErrorf("%s; stop it first, such as with `%s`. If it was stopped since, start again in %s, or with --takeover",
		first.Text(now), first.StopCommand(), first.Seen.Add(recentWrite).Sub(now).Round(time.Second))
}

// checkOwn refuses to start beside another holdfast that has some of the same objects. Those of one selector share a lease, and wait
// for it; one without a selector has the objects of every shard, and another lease.
func checkOwn(ctx context.Context, reader client.Reader, o Options, now time.Time) error {
	leases, err := leasesOf(ctx, reader, o)
	if err != nil {
		return unavailableErrorf("find out whether another holdfast does this work: %w; allow the controller to list leases, or start it with --takeover", err)
	}
	for _, lease := range leases {
		ofShard := strings.HasPrefix(lease.Name, leaseName+"-")
		overlaps := o.ShardSelector == "" && ofShard || o.ShardSelector != "" && lease.Name == leaseName
		if !overlaps || !isOwn(&lease, now) {
			continue
		}
		what := "all objects, those of this shard among them"
		if ofShard {
			what = "a shard, and this one would look after all objects"
		}
		return unavailableErrorf("another holdfast is at work: %s holds the lease %s/%s and looks after %s; stop it first, "+
			"give each a --watch-label-selector that leaves the other's objects out, or start with --takeover if the two have different objects",
			*lease.Spec.HolderIdentity, lease.Namespace, lease.Name, what)
	}
	return nil
}

// isOwn tells whether one of holdfast's kind holds a lease, and has renewed it in time.
func isOwn(lease *coordinationv1.Lease, now time.Time) bool {
	return strings.HasPrefix(ptr.Deref(lease.Spec.HolderIdentity, ""), ownIdentity) && now.Before(validUntil(lease))
}

// FindRivals looks for living controllers with the work of the options' controllers. One that holds no lease is seen by what it
// wrote lately.
func FindRivals(ctx context.Context, reader client.Reader, o Options, now time.Time) ([]rival.Alive, error) {
	leases, err := leasesOf(ctx, reader, o)
	if err != nil {
		return nil, err
	}
	var alive []rival.Alive
	for _, controller := range o.Controllers {
		for _, lease := range leases {
			if o.isRivalLease(rivalLeases[controller], lease.Name) && isHeldByAnother(&lease, now) {
				alive = append(alive, rival.Alive{
					Controller: strings.TrimSuffix(rivalLeases[controller], leaseSuffix), Namespace: lease.Namespace,
					Lease: lease.Namespace + "/" + lease.Name, Holder: *lease.Spec.HolderIdentity, Seen: lease.Spec.RenewTime.Time,
				})
			}
		}
	}
	if len(alive) > 0 || !o.runs(ControllerKustomization) {
		return alive, nil
	}
	return findWriter(ctx, reader, o, leases, now)
}

// FindOwn returns who of holdfast's kind leads in a namespace, or in any when it is empty, as namespace/holder of the lease.
func FindOwn(ctx context.Context, reader client.Reader, namespace string, now time.Time) ([]string, error) {
	o := Options{Namespace: namespace, WatchAllNamespaces: namespace == ""}
	leases, err := leasesOf(ctx, reader, o)
	var own []string
	for _, lease := range leases {
		if o.isRivalLease(leaseName, lease.Name) && isOwn(&lease, now) {
			own = append(own, lease.Namespace+"/"+*lease.Spec.HolderIdentity)
		}
	}
	return own, err
}

// isRivalLease tells whether the holder of a lease looks after objects that this process does too: all objects, or some by
// the same label selector. Whether two different selectors overlap can't be told from the lease.
func (o Options) isRivalLease(whole, name string) bool {
	if name == whole {
		return true
	}
	if o.ShardSelector == "" {
		return strings.HasPrefix(name, whole+"-")
	}
	return name == leaderelection.GenerateID(whole, o.ShardSelector)
}

// leaseID is the name of the lease of this process. Shards have one each, under the name that Flux gives it, so that they do not
// contend.
func (o Options) leaseID() string {
	if o.ShardSelector == "" {
		return leaseName
	}
	return leaderelection.GenerateID(leaseName, o.ShardSelector)
}

// leasesOf lists the leases that matter: those of the one namespace that is looked after, else those of all.
func leasesOf(ctx context.Context, reader client.Reader, o Options) ([]coordinationv1.Lease, error) {
	var list coordinationv1.LeaseList
	if !o.WatchAllNamespaces {
		err := reader.List(ctx, &list, client.InNamespace(o.Namespace))
		return list.Items, err
	}
	err := reader.List(ctx, &list)
	if apierrors.IsForbidden(err) {
		// Then those of the own namespace, where Flux is most likely to be.
		err = reader.List(ctx, &list, client.InNamespace(o.Namespace))
	}
	return list.Items, err
}

// isHeldByAnother tells whether a lease is held by someone who is not of holdfast's kind, and was renewed in time.
func isHeldByAnother(lease *coordinationv1.Lease, now time.Time) bool {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || strings.HasPrefix(*spec.HolderIdentity, ownIdentity) {
		return false
	}
	return now.Before(validUntil(lease))
}

// validUntil is the time up to which whoever held a lease may have written.
func validUntil(lease *coordinationv1.Lease) time.Time {
	spec := lease.Spec
	if spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
}

// lock is the lease that the process holds while it leads, under a name that tells what it is.
func lock(config *rest.Config, o Options) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this host: %w", err)
	}
	if !strings.HasPrefix(host, ownIdentity) {
		host = ownIdentity + "-" + host
	}
	made, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.Namespace, o.leaseID(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()}, config, o.LeaderElection.RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("make the lease %s/%s: %w", o.Namespace, o.leaseID(), err)
	}
	return made, nil
}

// withLock gives the options of a manager the lease, if it is to hold one.
func withLock(options ctrl.Options, config *rest.Config, o Options) (ctrl.Options, error) {
	if !o.LeaderElection.Enable {
		return options, nil
	}
	var err error
	options.LeaderElectionResourceLockInterface, err = lock(config, o)
	return options, err
}

// runs tells whether a controller is among those to run.
func (o Options) runs(controller string) bool { return slices.Contains(o.Controllers, controller) }
