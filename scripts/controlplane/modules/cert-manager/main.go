// cert-manager's controllers in the two programs that upstream ships them in, whose commands lie in modules that cannot
// be imported. Linked in is what self-signed and CA issuers need: no ACME, no Vault, no Venafi, and no webhook.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	programs := map[string]func(ctx context.Context, kubeconfig string, ready func()) error{
		"controller": runController,
		"cainjector": runInjector,
	}
	if len(os.Args) != 4 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cert-manager controller|cainjector KUBECONFIG HOST:PORT, which then answers /readyz")
		os.Exit(2)
	}
	run, kubeconfig, address := programs[os.Args[1]], os.Args[2], os.Args[3]
	log := klog.Background()
	ctrl.SetLogger(log)
	ctx, stop := signal.NotifyContext(logr.NewContext(context.Background(), log), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var ready atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveHealth(ctx, address, &ready) })
	group.Go(func() error { return run(ctx, kubeconfig, func() { ready.Store(true) }) })
	if err := group.Wait(); err != nil {
		log.Error(err, "ended")
		os.Exit(1)
	}
}

// serveHealth answers every path with 200 once ready, with 503 before, until the context ends.
func serveHealth(ctx context.Context, address string, ready *atomic.Bool) error {
	server := http.Server{Addr: address, Handler: http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			answer.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
