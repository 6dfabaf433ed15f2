package revision

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxUnpacked bounds what a stored revision may unpack to.
const maxUnpacked = 256 << 20

// encode packs objects. The same objects give the same bytes.
func encode(objects []*unstructured.Unstructured) ([]byte, error) {
	contents := make([]map[string]any, 0, len(objects))
	for _, obj := range objects {
		contents = append(contents, obj.Object)
	}
	text, err := utiljson.Marshal(contents)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// decode is the opposite of encode. Its errors hold nothing of the content.
func decode(packed []byte) ([]*unstructured.Unstructured, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, errors.New("it is not compressed as it should be")
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	switch {
	case err != nil:
		return nil, errors.New("it can't be unpacked")
	case len(text) > maxUnpacked:
		return nil, fmt.Errorf("it unpacks to more than %d MiB", maxUnpacked>>20)
	}
	var contents []map[string]any
	if err := utiljson.Unmarshal(text, &contents); err != nil {
		return nil, errors.New("it holds no list of objects")
	}
	objects := make([]*unstructured.Unstructured, 0, len(contents))
	for _, content := range contents {
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects, nil
}

// chunks cuts the bytes into pieces of at most size.
func chunks(packed []byte, size int) [][]byte {
	var out [][]byte
	for len(packed) > size {
		out = append(out, packed[:size])
		packed = packed[size:]
	}
	return append(out, packed)
}

func checksum(packed []byte) string {
	sum := sha256.Sum256(packed)
	return "sha256:" + hex.EncodeToString(sum[:])
}
