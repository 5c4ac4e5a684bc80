package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func byKstatus(input io.Reader) (health, error) {
	object, err := read(input)
	if err != nil {
		return health{}, err
	}
	result, err := status.Compute(object)
	if err != nil {
		return health{}, err
	}
	return health{string(result.Status), result.Message}, nil
}

func byExpressions(ctx context.Context, file string, input io.Reader) (health, error) {
	object, err := read(input)
	if err != nil {
		return health{}, err
	}
	check, err := checkFor(file, object)
	if err != nil {
		return health{}, err
	}
	evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
	if err != nil {
		return health{}, err
	}
	result, err := evaluator.Evaluate(ctx, object)
	if err != nil {
		return health{}, err
	}
	return health{string(result.Status), result.Message}, nil
}

// The expressions of a Kustomization that are for objects like this one.
func checkFor(file string, object *unstructured.Unstructured) (*kustomize.CustomHealthCheck, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var kustomization struct {
		Spec struct {
			HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, err
	}
	for _, check := range kustomization.Spec.HealthCheckExprs {
		if check.APIVersion == object.GetAPIVersion() && check.Kind == object.GetKind() {
			return &check, nil
		}
	}
	return nil, fmt.Errorf("%s has no expressions for %s", file, object.GroupVersionKind())
}

func read(input io.Reader) (*unstructured.Unstructured, error) {
	text, err := io.ReadAll(input)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	// Whole numbers become int64, as a client of the API server has them: kstatus compares generations as such.
	return object, object.UnmarshalJSON(text)
}
