package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// How often the control plane is asked whether it is ready.
const readinessPeriod = 50 * time.Millisecond

// plane is a control plane that runs.
type plane struct {
	paths paths
	store *embed.Etcd
	// What ended by itself, and why: nothing should before stop.
	ended chan error
	// The order of these is the order in which the components are stopped.
	components []component
}

type component struct {
	name   string
	cancel context.CancelFunc
	done   chan error
}

// start brings everything up in the order in which each needs the one before.
func start(owner context.Context, s settings) (*plane, error) {
	folder, err := filepath.Abs(s.folder)
	if err != nil {
		return nil, err
	}
	p := paths(folder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := makeKeys(p); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	listener, port, err := listen(p, s.port)
	if err != nil {
		return nil, err
	}
	if err := writeKubeconfigs(p, serverURL(port)); err != nil {
		return nil, fmt.Errorf("kubeconfigs: %w", err)
	}
	store, address, err := startStore(owner, p)
	if err != nil {
		return nil, err
	}
	running := &plane{paths: p, store: store, ended: make(chan error, 3)}
	o, err := readOptions(p, s, port, address)
	if err == nil {
		err = running.startComponents(owner, o, listener, s.apiOnly)
	}
	return running, err
}

func (r *plane) startComponents(owner context.Context, o *options, listener net.Listener, apiOnly bool) error {
	// Feature gates are the process's own: they are set once, when every component's flags have been read.
	if err := o.api.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	o.api.SecureServing.Listener = listener
	completed, err := o.api.Complete(owner)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return fmt.Errorf("kube-apiserver: %w", utilerrors.NewAggregate(errs))
	}
	r.begin("kube-apiserver", func(ctx context.Context) error { return apiserver.Run(ctx, completed) })
	client, err := r.client()
	if err != nil {
		return err
	}
	if err := r.until(owner, "the API server to be ready", func() error {
		return client.RESTClient().Get().AbsPath("/readyz").Do(owner).Error()
	}); err != nil || apiOnly {
		return err
	}
	if err := r.startFollowers(o); err != nil {
		return err
	}
	// Pods are refused before it exists.
	return r.until(owner, "the default service account", func() error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(owner, "default", metav1.GetOptions{})
		return err
	})
}

// startFollowers starts the two that are the API server's clients. Each is set up under the context that stops it.
func (r *plane) startFollowers(o *options) error {
	ctx, cancel := context.WithCancel(context.Background())
	complete, sched, err := scheduler.Setup(ctx, o.scheduler)
	if err != nil {
		cancel()
		return fmt.Errorf("kube-scheduler: %w", err)
	}
	r.beginWith(ctx, cancel, "kube-scheduler", func(ctx context.Context) error { return scheduler.Run(ctx, complete, sched) })

	known, disabled, aliases := controllers()
	ctx, cancel = context.WithCancel(context.Background())
	config, err := o.manager.Config(ctx, known, disabled, aliases)
	if err != nil {
		cancel()
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	r.beginWith(ctx, cancel, "kube-controller-manager", func(ctx context.Context) error { return manager.Run(ctx, config.Complete()) })
	return nil
}

func (r *plane) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", r.paths.kubeconfig("admin"))
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (r *plane) begin(name string, body func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	r.beginWith(ctx, cancel, name, body)
}

func (r *plane) beginWith(ctx context.Context, cancel context.CancelFunc, name string, body func(context.Context) error) {
	one := component{name: name, cancel: cancel, done: make(chan error, 1)}
	// Clients stop before the server they talk to.
	r.components = append([]component{one}, r.components...)
	go func() {
		err := body(ctx)
		one.done <- err
		if ctx.Err() == nil {
			r.ended <- fmt.Errorf("%s ended by itself: %w", name, errors.Join(err, errors.New("see its log above")))
		}
	}()
}

// until asks again and again; it gives up when the owner does, or when a component has ended.
func (r *plane) until(owner context.Context, what string, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-owner.Done():
			return fmt.Errorf("waiting for %s: %w (last answer: %v)", what, owner.Err(), err)
		case ended := <-r.ended:
			return ended
		case <-time.After(readinessPeriod):
		}
	}
}

// wait returns when the owner has had enough, or with an error when a component has ended by itself.
func (r *plane) wait(owner context.Context) error {
	select {
	case <-owner.Done():
		return nil
	case err := <-r.ended:
		return err
	}
}

// stop ends the components one after the other, the store last.
func (r *plane) stop() error {
	for _, one := range r.components {
		one.cancel()
		// "finished without leader elect" is how a scheduler ends that was asked to.
		if err := <-one.done; err != nil && one.name != "kube-scheduler" {
			fmt.Fprintf(os.Stderr, "control-plane: %s: %v\n", one.name, err)
		}
	}
	r.store.Close()
	return nil
}
