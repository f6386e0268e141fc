// An admission webhook as most are written in Go: controller-runtime, typed objects, its own defaulter and validator
// machinery. It enforces five of Floorkeeper's static rules, and is there to be measured beside it.
package main

import (
	"crypto/tls"
	"flag"
	"os"

	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func main() {
	port := flag.Int("port", 0, "port of loopback to listen on")
	certificates := flag.String("certificates", "", "folder with tls.crt and tls.key")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	log := ctrl.Log.WithName("idiomatic")

	scheme := runtime.NewScheme()
	utilruntime.Must(apps.AddToScheme(scheme))
	server := webhook.NewServer(webhook.Options{
		Host:    "127.0.0.1",
		Port:    *port,
		CertDir: *certificates,
		// As kubebuilder's scaffold has it: HTTP/2 is off.
		TLSOpts: []func(*tls.Config){func(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }},
	})
	policy := Policy{Queues: []Queue{
		{Namespace: "llm-d-optimized-baseline", Workload: "model-a*", LocalQueue: "model-a-lq"},
		{Namespace: "llm-d-optimized-baseline", Workload: "model-b*", LocalQueue: "model-b-lq"},
	}}
	hooks := &Webhook{Policy: policy}
	server.Register("/mutate", admission.WithDefaulter[*apps.Deployment](scheme, hooks))
	server.Register("/validate", admission.WithValidator[*apps.Deployment](scheme, hooks))
	if err := server.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Error(err, "ended")
		os.Exit(1)
	}
}
