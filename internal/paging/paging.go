// Package paging reads long lists page by page. It knows nothing of what is in them.
package paging

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Each lists objects, opts.Limit at a time, and calls visit with each page, until there is none left or visit has enough. empty
// makes the list that a page is read into: each has one of its own, so that visit may keep what is in it.
func Each[L client.ObjectList](ctx context.Context, reader client.Reader, opts client.ListOptions, empty func() L, visit func(L) (enough bool, err error)) error {
	opts.Continue = ""
	for {
		page := empty()
		if err := reader.List(ctx, page, &opts); err != nil {
			return err
		}
		if enough, err := visit(page); err != nil || enough || page.GetContinue() == "" {
			return err
		}
		opts.Continue = page.GetContinue()
	}
}
