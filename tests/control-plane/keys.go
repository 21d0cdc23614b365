package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
)

// The first address of the services' range is the API server's own name inside the cluster.
const serviceRange, serviceAddress = "10.96.0.0/16", "10.96.0.1"

// paths knows where everything lies below the folder.
type paths string

func (p paths) join(parts ...string) string {
	return filepath.Join(append([]string{string(p)}, parts...)...)
}
func (p paths) certificate(name string) string { return p.join("pki", name+".crt") }
func (p paths) key(name string) string         { return p.join("pki", name+".key") }
func (p paths) kubeconfig(name string) string  { return p.join(name + ".kubeconfig") }

// identity is whom a certificate names.
type identity struct {
	file, user, group string
	server            bool
}

// One authority signs for the server and its clients; another, which clients never see, for the aggregation layer.
const authority, frontAuthority, accounts = "ca", "front-proxy-ca", "service-accounts"

var (
	clients = []identity{
		{file: "admin", user: "admin", group: "system:masters"},
		{file: "scheduler", user: "system:kube-scheduler"},
		{file: "controller-manager", user: "system:kube-controller-manager"},
	}
	servers = []identity{{file: "apiserver", user: "kube-apiserver", server: true}}
	proxies = []identity{{file: "front-proxy-client", user: "front-proxy-client"}}
)

// makeKeys makes all keys and certificates of a new folder, and leaves those of an old one alone.
func makeKeys(p paths) error {
	// Written last, so a folder that has it has everything.
	finished := p.key(accounts)
	if _, err := os.Stat(finished); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(p.join("pki"), 0o700); err != nil {
		return err
	}
	if err := makeFamily(p, authority, append(servers, clients...)); err != nil {
		return err
	}
	if err := makeFamily(p, frontAuthority, proxies); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writeKey(finished, key)
}

// makeFamily makes an authority and everyone it vouches for.
func makeFamily(p paths, name string, members []identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	root := template(identity{user: "fleetwright-test-" + name})
	root.IsCA, root.BasicConstraintsValid = true, true
	root.KeyUsage |= x509.KeyUsageCertSign
	// A purpose of the authority's own would bind everyone it vouches for.
	root.ExtKeyUsage = nil
	if err := sign(p, name, root, root, key, key); err != nil {
		return err
	}
	for _, member := range members {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		if err := sign(p, member.file, template(member), root, own, key); err != nil {
			return fmt.Errorf("certificate of %s: %w", member.file, err)
		}
	}
	return nil
}

func template(who identity) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail on any system this runs on
	}
	certificate := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: who.user},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if who.group != "" {
		certificate.Subject.Organization = []string{who.group}
	}
	if who.server {
		certificate.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		certificate.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceAddress)}
		certificate.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	}
	return certificate
}

func sign(p paths, name string, certificate, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, certificate, parent, &key.PublicKey, parentKey)
	if err != nil {
		return err
	}
	if err := writeKey(p.key(name), key); err != nil {
		return err
	}
	return writePEM(p.certificate(name), "CERTIFICATE", der)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKubeconfigs writes one file for each client, with its keys inside: a file is all that a client needs.
func writeKubeconfigs(p paths, url string) error {
	for _, client := range clients {
		config := clientapi.NewConfig()
		config.Clusters["test"] = &clientapi.Cluster{Server: url, CertificateAuthority: p.certificate(authority)}
		config.AuthInfos[client.file] = &clientapi.AuthInfo{
			ClientCertificate: p.certificate(client.file), ClientKey: p.key(client.file),
		}
		config.Contexts["test"] = &clientapi.Context{Cluster: "test", AuthInfo: client.file}
		config.CurrentContext = "test"
		if err := clientapi.FlattenConfig(config); err != nil {
			return err
		}
		if err := clientcmd.WriteToFile(*config, p.kubeconfig(client.file)); err != nil {
			return err
		}
	}
	return nil
}
