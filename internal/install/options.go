package install

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The controllers that can be installed, as `holdfast run --controllers` names them.
const (
	ControllerSource        = "source"
	ControllerKustomization = "kustomization"
)

// The profiles of rights.
const (
	// ProfileFlux gives the controller all rights, as Flux does, so that existing manifests work unchanged.
	ProfileFlux = "flux"
	// ProfileLeast gives it no right to write what Git asks for: it impersonates a ServiceAccount of each Kustomization's namespace.
	ProfileLeast = "least"
)

// DefaultNamespace is where the stock flux CLI looks for controllers.
const DefaultNamespace = "flux-system"

// defaultRepository is the image without its tag. It names no registry host: the cluster's own default or mirror decides.
const defaultRepository = "holdfast-gitops/holdfast"

// Options say what to install. The zero value, with a Version, is a full installation.
type Options struct {
	// Version of the program; it becomes a label and, without Image, the tag of the image.
	Version string
	// Namespace of the controller; DefaultNamespace when empty.
	Namespace string
	// Image of the controller with its tag; the default repository with the version when empty.
	Image string
	// Profile of rights; ProfileFlux when empty.
	Profile string
	// Controllers to run; all when empty. Without ControllerSource the source CRDs and the artifact Service are left out,
	// for clusters in which Flux's source-controller does that work.
	Controllers []string
	// EventsAddr is the address of a notification-controller that gets the events too.
	EventsAddr string
	// CRDsOnly leaves out everything but the CRDs.
	CRDsOnly bool
}

// normalize checks the options and fills in what is empty.
func (o Options) normalize() (Options, error) {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		return o, fmt.Errorf("namespace %q can't be used: %s", o.Namespace, strings.Join(problems, "; "))
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Image == "" {
		o.Image = defaultRepository + ":" + labelValue(o.Version)
	}
	if err := checkImage(o.Image); err != nil {
		return o, err
	}
	if len(o.Controllers) == 0 {
		o.Controllers = []string{ControllerSource, ControllerKustomization}
	}
	for _, name := range o.Controllers {
		if name != ControllerSource && name != ControllerKustomization {
			return o, fmt.Errorf("controller %q is not known: the controllers are %s and %s", name, ControllerSource, ControllerKustomization)
		}
	}
	return o, o.checkProfile()
}

func (o Options) checkProfile() error {
	switch o.Profile {
	case "", ProfileFlux, ProfileLeast:
		return nil
	default:
		return fmt.Errorf("profile %q is not known: use --profile %s or %s", o.Profile, ProfileFlux, ProfileLeast)
	}
}

// checkImage refuses what would break the template, and an image without a tag: the flux CLI reads the version from it.
func checkImage(image string) error {
	if strings.ContainsAny(image, " \t\r\n'\"{}#,[]&*!|>%`") {
		return fmt.Errorf("image %q can't be used: give it as NAME:TAG or NAME:TAG@DIGEST", image)
	}
	name, _, _ := strings.Cut(image, "@")
	if !strings.Contains(name[strings.LastIndex(name, "/")+1:], ":") {
		return fmt.Errorf("image %q has no tag, which the flux CLI reads the version from: give it as NAME:TAG or NAME:TAG@DIGEST", image)
	}
	return nil
}

// has says whether a controller is among those to be installed.
func (o Options) has(controller string) bool {
	return slices.Contains(o.Controllers, controller)
}

// args are the arguments of the Deployment's container.
func (o Options) args() []string {
	args := []string{"run", "--controllers=" + strings.Join(o.Controllers, ",")}
	if o.EventsAddr != "" {
		args = append(args, "--events-addr="+o.EventsAddr)
	}
	args = append(args, "--watch-all-namespaces=true", "--log-level=info", "--log-encoding=json", "--enable-leader-election")
	if o.Profile == ProfileLeast {
		// Flux's own multi-tenancy lockdown. Without the account a Kustomization that names none would only be refused, with a
		// message that names the wrong user.
		args = append(args, "--default-service-account=default", "--no-cross-namespace-refs=true", "--no-remote-bases=true")
	}
	if o.has(ControllerSource) {
		args = append(args, "--storage-path=/data", "--storage-adv-addr=holdfast.$(RUNTIME_NAMESPACE).svc.cluster.local.")
	}
	return args
}

// labelValue makes a version fit for a label and for an image tag.
func labelValue(version string) string {
	fit := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		default:
			return '-'
		}
	}
	value := strings.Map(fit, version)
	return strings.Trim(value[:min(len(value), validation.LabelValueMaxLength)], "-._")
}
