// Package simulation is a container runtime without containers.
//
// The kubelet of a devcluster is real; only what it would start is not. This
// package answers the kubelet as a container runtime would, keeps the life of
// every container as a few points in time, and lets a pod say how it is going
// to behave, so that a test can have a pod that crashes, hangs or never gets
// ready without an image that does so.
//
// The tag of an image decides first:
//
//	missing  cannot be pulled: ErrImagePull, then ImagePullBackOff
//	crash    exits with code 1 at once: CrashLoopBackOff
//	exit0    exits with code 0 at once: a Job completes
//	others   run until they are stopped
//
// Annotations of the pod refine it; they belong in pod templates:
//
//	devcluster.holdfast.dev/unready: "true"    never ready, as with a failing readiness probe
//	devcluster.holdfast.dev/ready-after: "5s"  ready this long after the container started
//	devcluster.holdfast.dev/exit-after: "5s"   the containers end this long after they started
//	devcluster.holdfast.dev/exit-code: "1"     with this code instead of the tag's (others: 0)
//	devcluster.holdfast.dev/stop-after: "10s"  takes this long to stop; bounded by the grace period
//
// The first two are read whenever the kubelet looks at the pod, so that
// changing them on a live pod works. The other three are read when a container
// is created, as if they were a part of its command line. A value that cannot
// be read fails the creation of the container (CreateContainerError) and is
// quoted in the message.
//
// A plain init container ends well at once, since a pod would never start
// otherwise; the tags missing and crash hold for it too. Probes of every kind
// count as passed while a container runs. A container that stops in time exits
// with 0; one that is killed when its grace period is over exits with 137.
package simulation
