package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	managerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	manageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// auditPolicy keeps who asked what, without bodies, of every service account that is not one of Kubernetes' own.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    userGroups: ["system:serviceaccounts:kube-system"]
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
  - level: None
`

// options are the components' own, with our flags read into them.
type options struct {
	api       *apioptions.ServerRunOptions
	scheduler *scheduleroptions.Options
	manager   *manageroptions.KubeControllerManagerOptions
}

func readOptions(p paths, s settings, port int, store string) (*options, error) {
	manager, err := manageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	o := &options{api: apioptions.NewServerRunOptions(), scheduler: scheduleroptions.NewOptions(), manager: manager}
	apiFlags, err := apiServerFlags(p, s, port, store)
	if err != nil {
		return nil, err
	}
	known, disabled, aliases := controllers()
	for _, component := range []struct {
		name  string
		known cliflag.NamedFlagSets
		flags []string
	}{
		{"kube-apiserver", o.api.Flags(), apiFlags},
		{"kube-scheduler", *o.scheduler.Flags, schedulerFlags(p)},
		{"kube-controller-manager", manager.Flags(known, disabled, aliases), managerFlags(p, s)},
	} {
		set := pflag.NewFlagSet(component.name, pflag.ContinueOnError)
		for _, part := range component.known.FlagSets {
			set.AddFlagSet(part)
		}
		if err := set.Parse(component.flags); err != nil {
			return nil, fmt.Errorf("flags of %s: %w", component.name, err)
		}
	}
	return o, nil
}

func controllers() ([]string, []string, map[string]string) {
	return managerapp.KnownControllers(), managerapp.ControllersDisabledByDefault(), managerapp.ControllerAliases()
}

func apiServerFlags(p paths, s settings, port int, store string) ([]string, error) {
	url := serverURL(port)
	toleration := strconv.Itoa(int(s.eviction.Seconds()))
	flags := []string{
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		// A loopback address is no valid endpoint of the Service `kubernetes`.
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + store,
		"--service-cluster-ip-range=" + serviceRange,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--client-ca-file=" + p.certificate(authority),
		"--tls-cert-file=" + p.certificate("apiserver"), "--tls-private-key-file=" + p.key("apiserver"),
		// The issuer is an address that answers, so that others can discover its keys and verify tokens.
		"--service-account-issuer=" + url, "--service-account-jwks-uri=" + url + "/openid/v1/jwks",
		"--service-account-key-file=" + p.key(accounts), "--service-account-signing-key-file=" + p.key(accounts),
		"--requestheader-client-ca-file=" + p.certificate(frontAuthority),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + p.certificate("front-proxy-client"),
		"--proxy-client-key-file=" + p.key("front-proxy-client"),
		"--default-not-ready-toleration-seconds=" + toleration, "--default-unreachable-toleration-seconds=" + toleration,
		"--profiling=false",
	}
	if s.auditLog == "" {
		return flags, nil
	}
	policy := p.join("audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	return append(flags, "--audit-policy-file="+policy, "--audit-log-path="+s.auditLog, "--audit-log-mode=blocking"), nil
}

// Port 0 stands for no port at all: nobody asks these two for health or metrics, and each saves a certificate.
func schedulerFlags(p paths) []string {
	return []string{
		"--secure-port=0", "--leader-elect=false", "--kubeconfig=" + p.kubeconfig("scheduler"),
		"--kube-api-qps=500", "--kube-api-burst=1000",
	}
}

func managerFlags(p paths, s settings) []string {
	return []string{
		"--secure-port=0", "--leader-elect=false", "--kubeconfig=" + p.kubeconfig("controller-manager"),
		// At the default rate the first pod of a cluster waits five seconds longer for its service account.
		"--kube-api-qps=300", "--kube-api-burst=600",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + p.key(accounts), "--root-ca-file=" + p.certificate(authority),
		"--cluster-signing-cert-file=" + p.certificate(authority), "--cluster-signing-key-file=" + p.key(authority),
		"--node-monitor-period=1s", "--node-monitor-grace-period=" + s.nodeGrace.String(),
	}
}

func serverURL(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }
