package component

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
)

// runEtcd serves a single member on a port of the kernel's choice and writes
// the address to the pipe which the supervisor reads.
func runEtcd(args []string) error {
	flags := flag.NewFlagSet(contract.Etcd, flag.ContinueOnError)
	dir := flags.String("data-dir", "", "where the data is kept")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read flags of etcd: %w", err)
	}
	server, err := embed.StartEtcd(etcdConfig(*dir))
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return fmt.Errorf("start etcd: %w", err)
	case <-server.Server.StopNotify():
		return errors.New("start etcd: it stopped by itself")
	}
	if err := report(server.Clients[0].Addr().String()); err != nil {
		return err
	}
	return fmt.Errorf("serve etcd: %w", <-server.Err())
}

func etcdConfig(dir string) *embed.Config {
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = anyPort, anyPort
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = anyPort, anyPort
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// The data has to survive a killed process, which it does without fsync;
	// it does not have to survive the machine.
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "warn"
	cfg.WarningUnaryRequestDuration = time.Second
	// The gateway for REST would dial the port 0 for ever.
	cfg.EnableGRPCGateway = false
	cfg.QuotaBackendBytes = 4 << 30
	return cfg
}

func report(address string) error {
	pipe := os.NewFile(contract.FDExtra, "address")
	if _, err := fmt.Fprintln(pipe, address); err != nil {
		return fmt.Errorf("report address of etcd: %w", err)
	}
	if err := pipe.Close(); err != nil {
		return fmt.Errorf("report address of etcd: %w", err)
	}
	return nil
}
