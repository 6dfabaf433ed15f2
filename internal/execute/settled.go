package execute

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/fluxcd/pkg/ssa"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Settled remembers which objects a dry-run found to be as their manifests want them, so that the same manifest and the same object
// need no other one: it would find the same. It is used by one apply at a time.
//
// What makes a dry-run find something else without a trace on the object is not seen: another webhook, other defaults, other
// rights, other settings of an apply. Whoever keeps a Settled has to drop it now and then for that.
type Settled map[object.ID]settled

// settled is a manifest, and the object as it was found.
type settled struct{ manifest, live fingerprint }

// fingerprint stands for the content of an object.
type fingerprint [16]byte

// without returns the objects that need a dry-run, and of all objects that may be remembered what to remember.
func (s Settled) without(objects []*unstructured.Unstructured, live liveObjects) (open []*unstructured.Unstructured, now Settled) {
	now = make(Settled, len(objects))
	for _, obj := range objects {
		id := object.IDOf(obj)
		state, ok := stateOf(obj, live[id])
		if ok {
			now[id] = state
		}
		if before, known := s[id]; !ok || !known || before != state {
			open = append(open, obj)
		}
	}
	return open, now
}

// note remembers those objects that the dry-run found to be as they are wanted, and forgets the others.
func (s Settled) note(changes *ssa.ChangeSet, now Settled) {
	if s == nil || changes == nil {
		return
	}
	for _, entry := range changes.Entries {
		meta := entry.ObjMetadata
		id := object.ID{Group: meta.GroupKind.Group, Kind: meta.GroupKind.Kind, Namespace: meta.Namespace, Name: meta.Name}
		delete(s, id)
		if state, ok := now[id]; ok && entry.Action == ssa.UnchangedAction {
			s[id] = state
		}
	}
}

// stateOf returns what is to be the same for a dry-run to find the same; ok is false where that can't be told, or an apply does more
// than to write: Jobs are told apart by what the dry-run says of them.
func stateOf(obj, live *unstructured.Unstructured) (state settled, ok bool) {
	if live == nil || live.GetUID() == "" || RunsOnce(object.IDOf(obj)) {
		return state, false
	}
	if _, has := obj.Object["status"]; has {
		return state, false // what is left out of the fingerprint may be wanted to be something else
	}
	manifest, ok1 := digest(obj.Object)
	found, ok2 := digest(lasting(live))
	return settled{manifest: manifest, live: found}, ok1 && ok2
}

// lasting is an object without what changes all the time and is of no concern to an apply: its status with the fields that are
// managed by writes to that, the times of writes, and its resource version. All else counts, whoever wrote it.
func lasting(live *unstructured.Unstructured) map[string]any {
	content := copyWithout(live.Object, "status")
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		return content
	}
	metadata = copyWithout(metadata, "resourceVersion")
	content["metadata"] = metadata
	entries, ok := metadata["managedFields"].([]any)
	if !ok {
		return content
	}
	var managed []any
	for _, entry := range entries {
		fields, ok := entry.(map[string]any)
		switch {
		case !ok:
			managed = append(managed, entry)
		case fields["subresource"] != "status":
			managed = append(managed, copyWithout(fields, "time"))
		}
	}
	delete(metadata, "managedFields")
	if len(managed) > 0 {
		metadata["managedFields"] = sorted(managed)
	}
	return content
}

// sorted puts the entries in an order that does not depend on when they were written, which the API server sorts them by.
func sorted(entries []any) []any {
	key := func(entry any) []byte {
		text, _ := json.Marshal(entry) // what can't be encoded makes the whole object unfit
		return text
	}
	slices.SortStableFunc(entries, func(a, b any) int { return bytes.Compare(key(a), key(b)) })
	return entries
}

func copyWithout(m map[string]any, left string) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		if key != left {
			out[key] = value
		}
	}
	return out
}

func digest(content map[string]any) (f fingerprint, ok bool) {
	text, err := json.Marshal(content) // with sorted keys
	if err != nil {
		return f, false
	}
	sum := sha256.Sum256(text)
	copy(f[:], sum[:])
	return f, true
}
