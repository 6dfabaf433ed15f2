package main

import (
	"maps"
	"strings"
	"testing"
)

func TestRequestsAreSummedByMethod(t *testing.T) {
	got := requestsIn(`# HELP rest_client_requests_total Number of HTTP requests.
rest_client_requests_total{code="200",host="127.0.0.1:1",method="GET"} 12
rest_client_requests_total{code="404",host="127.0.0.1:1",method="GET"} 3
rest_client_requests_total{code="200",host="127.0.0.1:1",method="PATCH"} 1.2e+03
rest_client_rate_limiter_duration_seconds_count{verb="GET"} 7
`)
	if want := map[string]int{"GET": 15, "PATCH": 1200}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTableComparesWithinARound(t *testing.T) {
	text := table([]figure{
		{Round: 1, Controller: "holdfast", Phase: "update", Seconds: 2, CPU: 1, Requests: map[string]int{"GET": 10}, Peak: 1 << 20},
		{Round: 2, Controller: "holdfast", Phase: "update", Seconds: 1, CPU: 1, Requests: map[string]int{"GET": 10}, Peak: 1 << 20},
		{Round: 1, Controller: "peer", Phase: "update", Seconds: 5, CPU: 3, Requests: map[string]int{"GET": 20, "PATCH": 5}, Peak: 2 << 20},
	})
	if !strings.Contains(text, "GET 20, PATCH 5  2.5, 3.0, 2.5, 2.0") {
		t.Error(text)
	}
}

func TestManifestsHaveTheNumberOfObjects(t *testing.T) {
	for _, objects := range []int{5, 12} {
		// The generated ConfigMap is one more than the documents.
		if n := strings.Count(tree(settings{objects: objects}, 3, 1)["apps/0003/objects.yaml"], "kind: "); n != objects-1 {
			t.Errorf("%d documents, want %d", n, objects-1)
		}
	}
}
