package main

import (
	"context"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// startStore starts etcd on ports that the system chooses. Nothing is synced to disk: tests kill processes, not machines.
func startStore(ctx context.Context, p paths) (*embed.Etcd, string, error) {
	config := embed.NewConfig()
	config.Dir = p.join("etcd")
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	// Unset, it counts every request as slow and says so.
	config.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	anywhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config.ListenClientUrls, config.AdvertiseClientUrls = anywhere, anywhere
	config.ListenPeerUrls, config.AdvertisePeerUrls = anywhere, anywhere
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	store, err := embed.StartEtcd(config)
	if err != nil {
		return nil, "", fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-store.Server.ReadyNotify():
		return store, "http://" + store.Clients[0].Addr().String(), nil
	case err := <-store.Err():
		return nil, "", fmt.Errorf("etcd: %w", err)
	case <-ctx.Done():
		store.Close()
		return nil, "", ctx.Err()
	}
}
