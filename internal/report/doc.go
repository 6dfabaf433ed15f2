// Package report is what a person or a program is told: the answers of `holdfast status` and `holdfast why`.
//
// The model: an answer is a struct, made out of the API objects and the time by a pure function, and printed either as
// text (text_*.go) or as it is, as JSON or YAML. So the structs below are the documented schema of `-o json`:
//
//	Status                 `holdfast status`: kustomizations[], sources[], summary, missingRights[]
//	ObjectAnswer           `holdfast why KIND/NAME`
//	KustomizationAnswer    `holdfast why NAME`
//
// Field names and the words of State, Standing and api/v1.RetentionReason are stable; texts meant for people (why,
// message, until, next) are not. Revisions are whole in the structs and shortened in the text. Times are RFC 3339.
//
// Nothing here decides. Why an object is kept is read from status.rollout.retained, where the planner wrote it, and never
// found out a second time. Reading the cluster belongs to internal/inquiry.
package report
