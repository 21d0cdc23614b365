// Command control-plane runs a whole Kubernetes control plane in one process: etcd, API server, scheduler and
// controller-manager, on loopback, with everything it keeps below one folder.
//
// It is made for tests. It prints one line when a client may start,
//
//	READY /folder/admin.kubeconfig
//
// and ends on SIGTERM, on SIGINT, and when its standard input closes: whoever started it holds the other end, so the
// control plane ends with its owner however the owner ends. Started again on the same folder it has the same data, the
// same keys and the same port.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// How long a stop may take before the process ends all the same.
const stopPatience = 30 * time.Second

type settings struct {
	folder    string
	port      int
	auditLog  string
	nodeGrace time.Duration
	eviction  time.Duration
	apiOnly   bool
}

func main() {
	var s settings
	pflag.StringVar(&s.folder, "dir", "", "folder for keys, kubeconfigs and data; made if absent")
	pflag.IntVar(&s.port, "port", 0, "port of the API server; 0 takes the folder's last one, else a free one")
	pflag.StringVar(&s.auditLog, "audit-log", "", "file for what service accounts outside kube-system asked of the API server, one JSON event a line")
	pflag.DurationVar(&s.nodeGrace, "node-grace", 40*time.Second, "how long a node may be silent before it counts as unreachable")
	pflag.DurationVar(&s.eviction, "eviction", 300*time.Second, "how long pods stay on a node that is not ready or unreachable")
	pflag.BoolVar(&s.apiOnly, "api-server-only", false, "run neither scheduler nor controller-manager: nothing changes what a client has written")
	pflag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	if s.folder == "" {
		return errors.New("--dir is missing: name a folder for keys and data")
	}
	asked, release := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer release()
	owner, cancel := context.WithCancelCause(asked)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(errors.New("standard input is closed"))
	}()

	plane, err := start(owner, s)
	if err == nil {
		fmt.Println("READY", plane.paths.kubeconfig("admin"))
		err = plane.wait(owner)
	} else if owner.Err() != nil {
		// Asked to end before it was up: what is half started ends with the process.
		return nil
	}
	time.AfterFunc(stopPatience, func() {
		fmt.Fprintln(os.Stderr, "control-plane: not stopped after", stopPatience)
		os.Exit(1)
	})
	if plane != nil {
		err = errors.Join(err, plane.stop())
	}
	return err
}
