package kustomization

import (
	"context"
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// checkSpec refuses what this version can't do. A field that is ignored in silence is worse than one that is refused:
// the user would believe it works.
func (p *pass) checkSpec(context.Context) *outcome {
	if fields := unsupported(p.ks.Spec); len(fields) > 0 {
		return &outcome{
			state:  stateStalled,
			reason: v1.ReasonFieldNotSupported,
			message: fmt.Sprintf("%s: not supported by this version of holdfast; nothing is applied or pruned until it is removed from the spec",
				strings.Join(fields, ", ")),
		}
	}
	if d := p.ks.Spec.Decryption; d != nil && d.ServiceAccountName != "" && !p.ObjectLevelIdentity {
		return &outcome{
			state:  stateStalled,
			reason: meta.FeatureGateDisabledReason,
			message: "spec.decryption.serviceAccountName needs the feature gate ObjectLevelWorkloadIdentity: start holdfast with " +
				"--feature-gates=ObjectLevelWorkloadIdentity=true, put the credentials into the Secret of spec.decryption.secretRef, " +
				"or leave the field out to use those of the controller",
		}
	}
	if refused := p.checkPolicy(); refused != nil {
		return refused
	}
	if p.NoCrossNamespaceRefs && p.sourceNamespace() != p.ks.Namespace {
		ref := p.ks.Spec.SourceRef
		return &outcome{
			state:  stateStalled,
			reason: fluxAccessDenied,
			message: fmt.Sprintf("can't access '%s/%s/%s', cross-namespace references have been blocked",
				ref.Kind, ref.Namespace, ref.Name),
		}
	}
	if p.ks.Spec.SourceRef.Kind == externalArtifact && !p.ExternalArtifacts {
		return &outcome{
			state:  stateStalled,
			reason: fluxAccessDenied,
			message: fmt.Sprintf("can't access '%s', the %s feature gate is disabled: start holdfast with --feature-gates=%s=true",
				p.sourceName(), externalArtifact, externalArtifact),
		}
	}
	return nil
}

const fluxAccessDenied = "AccessDenied"

// unsupported lists the fields that are set and not supported yet.
func unsupported(spec v1.KustomizationSpec) []string {
	var fields []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{fmt.Sprintf("spec.sourceRef.kind %q", spec.SourceRef.Kind), sourceKinds[spec.SourceRef.Kind] == nil},
	} {
		if f.set {
			fields = append(fields, f.name)
		}
	}
	return fields
}
