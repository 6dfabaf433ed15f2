package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/fluxcd/pkg/auth"
	"github.com/fluxcd/pkg/auth/generic"
	"github.com/fluxcd/pkg/cache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Gate is the feature gate without which no ServiceAccount but the controller's own is used.
const Gate = auth.FeatureGateObjectLevelWorkloadIdentity

// ErrGateOff says that a ServiceAccount is named while the gate is off.
var ErrGateOff = fmt.Errorf("the feature gate %s is off: start holdfast with --feature-gates=%s=true, or name no ServiceAccount to use the identity "+
	"of the controller", Gate, Gate)

// Issuer asks for credentials, and keeps them for as long as they last.
type Issuer struct {
	client      client.Client
	objectLevel bool
	tokens      *cache.TokenCache
	// mounted reads the token that the process has; nil for the one in its pod.
	mounted generic.Implementation
}

// Options are the settings of an Issuer.
type Options struct {
	// Client reads ServiceAccounts and asks for their tokens, with the rights of the controller.
	Client client.Client
	// ObjectLevel allows other ServiceAccounts than the controller's.
	ObjectLevel bool
	// Tokens keeps tokens; nil keeps none.
	Tokens *cache.TokenCache
}

// switchOn switches the library's own gate on, which is one for the whole process. What is allowed is checked here, so that several
// Issuers may stand next to each other.
var switchOn = sync.OnceFunc(auth.EnableObjectLevelWorkloadIdentity)

// New returns an Issuer.
func New(o Options) *Issuer {
	switchOn()
	return &Issuer{client: o.Client, objectLevel: o.ObjectLevel, tokens: o.Tokens}
}

// tokenProvider gives tokens of this cluster.
func (i *Issuer) tokenProvider() generic.Provider { return generic.Provider{Implementation: i.mounted} }

// Asker is who needs credentials.
type Asker struct {
	// Account is the ServiceAccount whose identity is used. Without a name it is the controller's own.
	Account types.NamespacedName
	// DefaultedBy is the flag that the name of the account is from; empty if the user named it.
	DefaultedBy string
	// Kind, Object and Operation are what the metrics of the tokens are told by.
	Kind      string
	Object    types.NamespacedName
	Operation string
}

// own tells whether the identity is that of the controller.
func (a Asker) own() bool { return a.Account.Name == "" }

// Allowed returns an error if the account may not be used.
func (i *Issuer) Allowed(account types.NamespacedName) error {
	if account.Name != "" && !i.objectLevel {
		return fmt.Errorf("ServiceAccount/%s can't be used: %w", account, ErrGateOff)
	}
	return nil
}

// options are what the library has to know of who asks.
func (i *Issuer) options(a Asker) ([]auth.Option, error) {
	if err := i.Allowed(a.Account); err != nil {
		return nil, err
	}
	options := []auth.Option{auth.WithClient(i.client)}
	if !a.own() {
		options = append(options, auth.WithServiceAccountName(a.Account.Name), auth.WithServiceAccountNamespace(a.Account.Namespace))
	}
	if i.tokens != nil {
		options = append(options, auth.WithCache(*i.tokens, cache.InvolvedObject{
			Kind: a.Kind, Namespace: a.Object.Namespace, Name: a.Object.Name, Operation: a.Operation}))
	}
	return options, nil
}

// Forget takes an object that is gone out of the metrics.
func (i *Issuer) Forget(kind string, object types.NamespacedName, operations ...string) {
	if i == nil {
		return
	}
	for _, operation := range operations {
		i.tokens.DeleteEventsForObject(kind, object.Name, object.Namespace, operation)
	}
}

// maxError bounds what a service says; it is shown in conditions.
const maxError = 400

// explain makes one line of bounded length of what the library or a service says, and adds what helps.
func explain(a Asker, err error) error {
	said := err
	if text := strings.Join(strings.Fields(err.Error()), " "); text != err.Error() || len(text) > maxError {
		if len(text) > maxError {
			text = strings.ToValidUTF8(text[:maxError], "") + "..."
		}
		said = &plain{text: text, err: err}
	}
	switch {
	case a.own() || errors.Is(err, context.Canceled):
		return said
	case apierrors.IsNotFound(err) && a.DefaultedBy == "":
		return fmt.Errorf("%w; create it, or name another", said)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w; --%s asks for that ServiceAccount in every namespace: create it, or name another", said, a.DefaultedBy)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; allow the controller to get ServiceAccount/%s and to create its subresource token", said, a.Account)
	}
	return said
}

// plain is an error with another text.
type plain struct {
	text string
	err  error
}

func (p *plain) Error() string { return p.text }
func (p *plain) Unwrap() error { return p.err }

// The flags that name accounts for those that name none, without their dashes.
const (
	KubeConfigFlag = auth.ControllerFlagDefaultKubeConfigServiceAccount
	DecryptionFlag = auth.ControllerFlagDefaultDecryptionServiceAccount
	// SourceFlag is what Flux's source-controller calls --default-service-account, which is another flag of kustomize-controller.
	SourceFlag = "default-source-service-account"
)
