package main

import (
	"path"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	queueLabel = "kueue.x-k8s.io/queue-name"
	gpu        = core.ResourceName("nvidia.com/gpu")
)

// Policy says which LocalQueue a workload belongs to. The first entry that matches applies.
type Policy struct {
	Queues []Queue
}

// Queue is an entry of a Policy; * in Workload stands for any characters.
type Queue struct {
	Namespace, Workload, LocalQueue string
}

func (p Policy) queueOf(deployment *apps.Deployment) string {
	if queue := deployment.Labels[queueLabel]; queue != "" {
		return queue
	}
	for _, entry := range p.Queues {
		matches, err := path.Match(entry.Workload, deployment.Name)
		if err == nil && matches && entry.Namespace == deployment.Namespace {
			return entry.LocalQueue
		}
	}
	return ""
}

// violations are those of missing-queue-name, conflicting-queue-name, queue-name-in-selector, surge-without-quota and
// implicit-gpu-request.
func violations(deployment *apps.Deployment) field.ErrorList {
	var found field.ErrorList
	spec := field.NewPath("spec")
	if selector := deployment.Spec.Selector; selector != nil {
		where := spec.Child("selector")
		if queue, ok := selector.MatchLabels[queueLabel]; ok {
			found = append(found, field.Invalid(where.Child("matchLabels").Key(queueLabel), queue, "must not be selected by"))
		}
		for index, expression := range selector.MatchExpressions {
			if expression.Key == queueLabel {
				at := where.Child("matchExpressions").Index(index)
				found = append(found, field.Invalid(at, expression.Key, "must not be selected by"))
			}
		}
	}
	if !asksForGPU(&deployment.Spec.Template.Spec) {
		return found
	}
	label := spec.Child("template", "metadata", "labels").Key(queueLabel)
	own, queue := deployment.Labels[queueLabel], deployment.Spec.Template.Labels[queueLabel]
	if queue == "" {
		found = append(found, field.Required(label, "must name a LocalQueue"))
	} else if own != "" && own != queue {
		found = append(found, field.Invalid(label, queue, "must equal the Deployment's own label, "+own))
	}
	if rolling := deployment.Spec.Strategy.RollingUpdate; rolling != nil {
		where := spec.Child("strategy", "rollingUpdate")
		if !isZero(rolling.MaxSurge) {
			found = append(found, field.Invalid(where.Child("maxSurge"), rolling.MaxSurge.String(), "must be 0"))
		}
		if isZero(rolling.MaxUnavailable) {
			at := where.Child("maxUnavailable")
			found = append(found, field.Invalid(at, rolling.MaxUnavailable.String(), "must be at least 1"))
		}
	}
	pod := &deployment.Spec.Template.Spec
	where := spec.Child("template", "spec")
	found = append(found, implicit(pod.InitContainers, where.Child("initContainers"))...)
	return append(found, implicit(pod.Containers, where.Child("containers"))...)
}

func implicit(containers []core.Container, where *field.Path) field.ErrorList {
	var found field.ErrorList
	for index := range containers {
		resources := &containers[index].Resources
		limit, limited := resources.Limits[gpu]
		request, requested := resources.Requests[gpu]
		if limited && (!requested || request.Cmp(limit) != 0) {
			at := where.Index(index).Child("resources", "requests").Key(string(gpu))
			found = append(found, field.Invalid(at, request.String(), "must equal the limit, "+limit.String()))
		}
	}
	return found
}

func asksForGPU(pod *core.PodSpec) bool {
	for _, containers := range [][]core.Container{pod.InitContainers, pod.Containers} {
		for index := range containers {
			resources := &containers[index].Resources
			for _, amounts := range []core.ResourceList{resources.Requests, resources.Limits} {
				if amount, ok := amounts[gpu]; ok && !amount.IsZero() {
					return true
				}
			}
		}
	}
	return false
}

// isZero tells whether it is 0 or 0%; absent is not, for the API server fills in 25%.
func isZero(value *intstr.IntOrString) bool {
	if value == nil {
		return false
	}
	return value.String() == "0" || (strings.HasSuffix(value.StrVal, "%") && strings.Trim(value.StrVal, "0") == "%")
}
