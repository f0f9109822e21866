// SPDX-License-Identifier: MIT OR Apache-2.0

// One program with three parts of a Kubernetes control plane, linked once: etcd, kube-apiserver, kube-scheduler.
//
// Usage: cluster etcd DIRECTORY CLIENT-URL PEER-URL | cluster kube-apiserver FLAG... | cluster kube-scheduler FLAG...
package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: cluster etcd|kube-apiserver|kube-scheduler ARGUMENT..."))
	}
	part := os.Args[1]
	os.Args = append([]string{part}, os.Args[2:]...)
	switch part {
	case "etcd":
		if err := etcd(os.Args[1:]); err != nil {
			fail(err)
		}
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	default:
		fail(fmt.Errorf("no part of the cluster is called %q", part))
	}
}

// etcd serves until it is told to stop. Nothing is synchronised to the disk: the directory is thrown away after the test.
func etcd(arguments []string) error {
	if len(arguments) != 3 {
		return fmt.Errorf("usage: cluster etcd DIRECTORY CLIENT-URL PEER-URL")
	}
	client, err := url.Parse(arguments[1])
	if err != nil {
		return err
	}
	peer, err := url.Parse(arguments[2])
	if err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Dir = arguments[0]
	config.LogLevel = "warn"
	config.UnsafeNoFsync = true
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-server.Err():
		return err
	case <-stop:
		return nil
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
