package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Limit is a count or a percentage of the inventory. The zero value is no limit.
type Limit struct {
	set, percent bool
	n            int
}

const wantLimit = "a count such as 10, or a percentage from 0% to 100%"

// ParseLimit reads "10" or "20%". An empty string is no limit.
func ParseLimit(s string) (Limit, error) {
	if s == "" {
		return Limit{}, nil
	}
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || percent && n > 100 {
		return Limit{}, errors.New("want " + wantLimit)
	}
	return Limit{set: true, percent: percent, n: n}, nil
}

// Of returns how many of the objects in an inventory the limit lets go at a time; false for no limit. A percentage is
// rounded up, and never less than one object.
func (l Limit) Of(inventory int) (most int, limited bool) {
	if l.percent {
		return max(1, (l.n*inventory+99)/100), l.set
	}
	return l.n, l.set
}

// String writes the limit as it is read.
func (l Limit) String() string {
	switch {
	case !l.set:
		return ""
	case l.percent:
		return fmt.Sprintf("%d%%", l.n)
	}
	return strconv.Itoa(l.n)
}
