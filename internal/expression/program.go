package expression

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// costLimit is what one evaluation may cost, the same as for one expression in a CustomResourceDefinition. A timeout would not
// do: cel-go looks for an interruption now and then only, and a loop within a loop absorbs it.
const costLimit = 1_000_000

// program is an expression that can be evaluated.
type program struct {
	text string
	run  cel.Program
}

// compile parses an expression. With variables it is checked, too: it may use no others, and has to be a condition. Without,
// its variables are the fields of an object, which nobody knows before.
func compile(text string, variables ...string) (*program, error) {
	options := []cel.EnvOption{
		cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders(),
	}
	for _, name := range variables {
		options = append(options, cel.Variable(name, cel.ObjectType("google.protobuf.Struct")))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("failed to create CEL environment: %w", err)
	}
	parse := env.Parse
	if len(variables) > 0 {
		parse = env.Compile
	}
	ast, issues := parse(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("failed to parse the CEL expression '%s': %w", text, issues.Err())
	}
	if got := ast.OutputType(); len(variables) > 0 && got != cel.BoolType {
		return nil, fmt.Errorf("CEL expression output type mismatch: expected %s, got %s", cel.BoolType, got)
	}
	run, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(costLimit))
	if err != nil {
		return nil, fmt.Errorf("failed to create CEL program: %w", err)
	}
	return &program{text: text, run: run}, nil
}

// holds tells whether the expression is true of the variables.
func (p *program) holds(variables map[string]any) (bool, error) {
	value, _, err := p.run.Eval(variables)
	if err != nil {
		return false, fmt.Errorf("failed to evaluate the CEL expression '%s': %w", p.text, err)
	}
	answer, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("failed to evaluate CEL expression as boolean: '%s'", p.text)
	}
	return answer, nil
}
