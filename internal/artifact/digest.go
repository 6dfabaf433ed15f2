package artifact

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"

	"github.com/zeebo/blake3"
)

// canonical is the algorithm of the digests that are written here, and of those that name none.
const canonical = "sha256"

var algorithms = map[string]func() hash.Hash{
	"sha256": sha256.New,
	"sha384": sha512.New384,
	"sha512": sha512.New,
	"blake3": func() hash.Hash { return blake3.New() },
}

// digester computes a digest that is to be compared with an expected one.
type digester struct {
	algorithm string
	want      string
	hash.Hash
}

// newDigester reads an expected digest: "<algorithm>:<hex>", or bare hex for sha256. One that can't be checked is an
// error, never a pass.
func newDigester(expected string) (*digester, error) {
	algorithm, sum, found := strings.Cut(expected, ":")
	if !found {
		algorithm, sum = canonical, expected
	}
	newHash, known := algorithms[algorithm]
	if !known {
		return nil, fmt.Errorf("check digest %q: algorithm unknown; the source must use sha256, sha384, sha512 or blake3", expected)
	}
	d := &digester{algorithm: algorithm, want: strings.ToLower(sum), Hash: newHash()}
	if raw, err := hex.DecodeString(d.want); err != nil || len(raw) != d.Size() {
		return nil, fmt.Errorf("check digest %q: not %d hexadecimal bytes; wait for the source to publish an artifact with a digest", expected, d.Size())
	}
	return d, nil
}

// verify compares what was written with what is expected.
func (d *digester) verify() error {
	if got := hex.EncodeToString(d.Sum(nil)); got != d.want {
		return &DigestMismatch{Want: d.algorithm + ":" + d.want, Got: d.algorithm + ":" + got}
	}
	return nil
}

func formatDigest(h hash.Hash) string { return canonical + ":" + hex.EncodeToString(h.Sum(nil)) }
