package app

import (
	"errors"
	"fmt"

	"github.com/fluxcd/pkg/cache"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// tokenMetrics begins the names of the metrics of tokens, as in Flux.
const tokenMetrics = "gotk_token_"

// newTokens returns what keeps tokens, nil if none are kept. Its metrics are those of the first one in the process.
func newTokens(f cache.TokenFlags) (*cache.TokenCache, error) {
	if f.MaxSize <= 0 {
		return nil, nil
	}
	own := prometheus.NewRegistry()
	tokens, err := cache.NewTokenCache(f.MaxSize, cache.WithMaxDuration(f.MaxDuration), cache.WithMetricsRegisterer(own),
		cache.WithMetricsPrefix(tokenMetrics))
	if err != nil {
		return nil, fmt.Errorf("make the cache of tokens: %w", err)
	}
	var again prometheus.AlreadyRegisteredError
	if err := metrics.Registry.Register(own); err != nil && !errors.As(err, &again) {
		return nil, fmt.Errorf("register the metrics of tokens: %w", err)
	}
	return tokens, nil
}
