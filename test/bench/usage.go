package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// usage is what a controller has used since it started.
type usage struct {
	// cpu in seconds, of all processes of the group.
	cpu float64
	// peak is the most resident memory so far, in bytes; the sum over the processes. It holds the pages of the program's own file
	// that were ever touched, too, which the kernel takes back when it needs them; own is what is resident now without them.
	peak, own int64
	// requests to the API server, by method.
	requests map[string]int
}

// used reads what the controller has used.
func (c *controller) used(ctx context.Context) (usage, error) {
	u := usage{requests: map[string]int{}}
	if err := c.dead(); err != nil {
		return u, err
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return u, err
	}
	for _, stat := range stats {
		u.addProcess(filepath.Dir(stat), c.command.Process.Pid)
	}
	for _, address := range c.metrics {
		if err := u.addRequests(ctx, address); err != nil {
			return u, fmt.Errorf("read the metrics of the controller: %w", err)
		}
	}
	return u, nil
}

// ticks is the unit of CPU times in /proc, per second; Linux has the same one everywhere.
const ticks = 100

// addProcess adds a process of the group. One that ends meanwhile counts for nothing.
func (u *usage) addProcess(dir string, group int) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name before it may hold anything
	fields := strings.Fields(after)
	if len(fields) < 13 || fields[2] != strconv.Itoa(group) {
		return
	}
	for _, field := range fields[11:13] { // user and system
		n, _ := strconv.ParseFloat(field, 64)
		u.cpu += n / ticks
	}
	status, _ := os.ReadFile(filepath.Join(dir, "status"))
	u.peak += memory(string(status), "VmHWM:")
	u.own += memory(string(status), "RssAnon:")
}

// memory is a line of the status of a process, in bytes.
func memory(status, line string) int64 {
	_, value, ok := strings.Cut(status, line)
	if !ok {
		return 0
	}
	kib, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
	return kib << 10
}

func (u *usage) addRequests(ctx context.Context, address string) error {
	content, err := get(ctx, "http://"+address+"/metrics")
	if err != nil {
		return err
	}
	for method, n := range requestsIn(content) {
		u.requests[method] += n
	}
	return nil
}

// requestLine is a line of client-go's counter of requests.
var requestLine = regexp.MustCompile(`^rest_client_requests_total\{.*method="([A-Z]+)".*\} ([0-9.e+]+)$`)

// requestsIn are the requests by method in an answer with metrics.
func requestsIn(metrics string) map[string]int {
	requests := map[string]int{}
	for lines := bufio.NewScanner(strings.NewReader(metrics)); lines.Scan(); {
		if m := requestLine.FindStringSubmatch(lines.Text()); m != nil {
			n, _ := strconv.ParseFloat(m[2], 64)
			requests[m[1]] += int(n)
		}
	}
	return requests
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", url, response.Status)
	}
	content, err := io.ReadAll(response.Body)
	return string(content), err
}
