// Package alias tells what a YAML document becomes when its aliases are replaced by what they stand for, without doing it. A few lines
// can stand for billions of nodes, or for themselves, and whoever replaces them runs out of memory or stack, which ends the process.
package alias

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Max is how many nodes aliases may add to a text.
const Max = 500_000

// ErrTooMany says that a text would become too large.
var ErrTooMany = fmt.Errorf("its YAML aliases stand for more than %d nodes: write out what they stand for, or split the file", Max)

// maxDepth is how deep aliases may nest a text; without aliases the parser has the same bound.
const maxDepth = 10_000

// ErrTooDeep says that a text would be nested too deeply.
var ErrTooDeep = fmt.Errorf("its YAML aliases nest it more than %d levels deep", maxDepth)

// ErrCircle says that an alias stands for something that it is part of.
var ErrCircle = errors.New("a YAML alias stands for something that it is part of")

// documentStart is where those who read one document at a time cut a text.
var documentStart = regexp.MustCompile(`(?m)^---.*$`)

// Check returns how many nodes the aliases of a text add to it. What is no YAML is left to whoever reads it as such.
func Check(data []byte) (int64, error) {
	if !bytes.ContainsRune(data, '*') || !bytes.ContainsRune(data, '&') {
		return 0, nil
	}
	added, broken, err := stream(data)
	if err != nil || !broken {
		return added, err
	}
	// A reader that cuts the text itself may get further than the one that found a fault.
	added = 0
	for _, piece := range documentStart.Split(string(data), -1) {
		more, _, err := stream([]byte(piece))
		if added += more; err != nil {
			return added, err
		}
		if added > Max {
			return added, ErrTooMany
		}
	}
	return added, nil
}

// stream looks at documents up to the first that can't be read.
func stream(data []byte) (added int64, broken bool, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return added, false, nil
		}
		if err != nil {
			return added, true, nil
		}
		w := weights{of: map[*yaml.Node]weight{}}
		whole, err := w.weigh(&document)
		if err != nil {
			return added, false, err
		}
		if added += whole.nodes - w.own; added > Max {
			return added, false, ErrTooMany
		}
	}
}

// weight is the number of nodes that a node becomes, and how deep they nest; -1 for one that is being weighed.
type weight struct{ nodes, depth int64 }

type weights struct {
	of  map[*yaml.Node]weight
	own int64
}

func (w *weights) weigh(n *yaml.Node) (weight, error) {
	switch known, ok := w.of[n]; {
	case known.nodes < 0:
		return weight{}, ErrCircle
	case ok:
		return known, nil
	}
	w.of[n] = weight{nodes: -1}
	w.own++
	total := weight{nodes: 1, depth: 1}
	below := n.Content
	if n.Kind == yaml.AliasNode {
		total, below = weight{}, []*yaml.Node{n.Alias}
	}
	own := total.depth
	for _, child := range below {
		each, err := w.weigh(child)
		if err != nil {
			return weight{}, err
		}
		total.nodes += each.nodes
		total.depth = max(total.depth, own+each.depth)
		switch {
		case total.nodes > 1<<40:
			return weight{}, ErrTooMany // before it overflows
		case total.depth > maxDepth:
			return weight{}, ErrTooDeep
		}
	}
	w.of[n] = total
	return total, nil
}
