// What Flux makes of objects, by its own libraries.
//
//	flux health [FILE]        reads an object as JSON from standard input and prints its health: by kstatus, or by the
//	                          healthCheckExprs of the Kustomization in FILE
//	flux apply KUBECONFIG     reads objects as YAML from standard input and applies them as Flux's kustomize-controller does;
//	                          prints what it did to each
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	switch {
	case len(arguments) == 1 && arguments[0] == "health":
		return printed(byKstatus(os.Stdin))
	case len(arguments) == 2 && arguments[0] == "health":
		return printed(byExpressions(ctx, arguments[1], os.Stdin))
	case len(arguments) == 2 && arguments[0] == "apply":
		return apply(ctx, arguments[1], os.Stdin)
	}
	return fmt.Errorf("usage: flux health [FILE] | flux apply KUBECONFIG")
}

func printed(found health, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
