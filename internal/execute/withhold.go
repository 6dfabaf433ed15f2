package execute

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Withheld returns the error of a request about an object. Of a Secret it keeps the reason and the fields only: the texts of the
// API server, and of webhooks, quote values, and errors end up in conditions, events and logs.
func Withheld(err error, obj runtime.Object) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if err == nil || gvk.Group != "" || gvk.Kind != "Secret" {
		return err
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		if transport := (*url.Error)(nil); errors.As(err, &transport) {
			return err
		}
		return errors.New("the Secret could not be sent" + notShown)
	}
	status := answer.Status()
	switch status.Reason {
	case metav1.StatusReasonNotFound, metav1.StatusReasonConflict, metav1.StatusReasonUnauthorized, metav1.StatusReasonTimeout,
		metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests:
		return err // about the object as a whole, or about managers of fields
	case metav1.StatusReasonForbidden:
		if missingRight.MatchString(status.Message) || noPlace.MatchString(status.Message) {
			return err
		}
	case metav1.StatusReasonInvalid:
		if unchangeable.MatchString(status.Message) {
			return err
		}
	default:
		// The text may quote what was sent.
	}
	return &apierrors.StatusError{ErrStatus: bare(status)}
}

const notShown = " (the full text is not shown, since it may hold values of the Secret)"

// missingRight is what the API server says of an account that lacks a right.
var missingRight = regexp.MustCompile(`^secrets[^:]* is forbidden: User "[^"]*" cannot \w+ resource "secrets"`)

// noPlace is what it says of a quota that is used up, and of a namespace that is going.
var noPlace = regexp.MustCompile(`^secrets "[^"]*" is forbidden: (exceeded quota: [\w.-]+(, (requested|used|limited): [\w./=,-]+)*|` +
	`unable to create new content in namespace [\w-]+ because it is being terminated)$`)

// unchangeable is what it says of a Secret that may not be changed, when it says nothing else.
var unchangeable = regexp.MustCompile("^Secret \"[^\"]*\" is invalid: \\[?((, )?(data|immutable): Forbidden: field is immutable when `immutable` is set)+\\]?$")

// typeFault is what it says of a field that is not of its type, up to the value.
var typeFault = regexp.MustCompile(`(\.[^\s:]+): (expected \w+|field not declared in schema)`)

// bare is the status with the fields that it names, and no text about them.
func bare(status metav1.Status) metav1.Status {
	var faults []string
	for _, match := range typeFault.FindAllStringSubmatch(status.Message, -1) {
		faults = append(faults, match[1]+": "+match[2])
	}
	if status.Details != nil {
		status.Details = status.Details.DeepCopy()
		for i, cause := range status.Details.Causes {
			status.Details.Causes[i].Message = ""
			if cause.Field != "" {
				faults = append(faults, cause.Field)
			}
		}
	}
	status.Message = "the Secret was refused"
	if len(faults) > 0 {
		status.Message += ", because of " + strings.Join(faults, ", ")
	}
	status.Message += notShown
	return status
}
