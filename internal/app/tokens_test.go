package app

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// lasting is a token that lasts an hour.
type lasting struct{}

func (lasting) GetDuration() time.Duration { return time.Hour }

// P178: the metrics of tokens have Flux's names, and several managers in one process are no fault. P218: a size of zero keeps none.
func TestTokenMetrics(t *testing.T) {
	tokens, err := newTokens(cache.TokenFlags{MaxSize: 1, MaxDuration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := newTokens(cache.TokenFlags{MaxSize: 1, MaxDuration: time.Hour}); err != nil || again == nil {
		t.Errorf("a second one: %v", err)
	}
	for _, key := range []string{"a", "b"} {
		if _, _, err := tokens.GetOrSet(t.Context(), key, func(context.Context) (cache.Token, error) { return lasting{}, nil },
			cache.WithInvolvedObject("Kustomization", "app", "shop", "fetch_kubeconfig")); err != nil {
			t.Fatal(err)
		}
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), tokenMetrics) {
			names[family.GetName()] = true
		}
	}
	for _, name := range []string{"cache_events_total", "cached_items", "cache_requests_total", "cache_evictions_total"} {
		if !names[tokenMetrics+name] {
			t.Errorf("%s is missing among %v", tokenMetrics+name, names)
		}
	}
	if none, err := newTokens(cache.TokenFlags{}); err != nil || none != nil {
		t.Errorf("%v, %v", none, err)
	}
}
