package main

import (
	"context"

	apps "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Webhook mends Deployments and judges them.
type Webhook struct {
	Policy Policy
}

// Default sets the queue's label and the rollout strategy of a Deployment that asks for GPUs.
func (w *Webhook) Default(_ context.Context, deployment *apps.Deployment) error {
	template := &deployment.Spec.Template
	if !asksForGPU(&template.Spec) {
		return nil
	}
	if template.Labels[queueLabel] == "" {
		if queue := w.Policy.queueOf(deployment); queue != "" {
			if template.Labels == nil {
				template.Labels = map[string]string{}
			}
			template.Labels[queueLabel] = queue
		}
	}
	if rolling := deployment.Spec.Strategy.RollingUpdate; rolling != nil {
		if !isZero(rolling.MaxSurge) {
			zero := intstr.FromInt32(0)
			rolling.MaxSurge = &zero
		}
		if isZero(rolling.MaxUnavailable) {
			one := intstr.FromInt32(1)
			rolling.MaxUnavailable = &one
		}
	}
	return nil
}

// ValidateCreate denies a Deployment that breaks a rule.
func (w *Webhook) ValidateCreate(_ context.Context, deployment *apps.Deployment) (admission.Warnings, error) {
	return w.validate(deployment)
}

// ValidateUpdate denies a Deployment that breaks a rule.
func (w *Webhook) ValidateUpdate(_ context.Context, _, deployment *apps.Deployment) (admission.Warnings, error) {
	return w.validate(deployment)
}

// ValidateDelete allows everything.
func (w *Webhook) ValidateDelete(context.Context, *apps.Deployment) (admission.Warnings, error) {
	return nil, nil
}

func (w *Webhook) validate(deployment *apps.Deployment) (admission.Warnings, error) {
	found := violations(deployment)
	if len(found) == 0 {
		return nil, nil
	}
	kind := schema.GroupKind{Group: apps.GroupName, Kind: "Deployment"}
	return nil, apierrors.NewInvalid(kind, deployment.Name, found)
}
