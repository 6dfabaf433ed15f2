// Package expression evaluates the CEL expressions of a Kustomization: what makes an object healthy (spec.healthCheckExprs),
// and what makes a dependency ready (spec.dependsOn[].readyExpr).
//
// The language, its extensions, the order of the expressions and the words of the errors are Flux's. Expressions are written
// by tenants, so that the cost of an evaluation is limited, as in the API server.
package expression
