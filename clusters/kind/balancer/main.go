// Package balancer is the load balancer of a kind cluster if the image that kind starts is not
// available from a registry.
//
// kind runs a fixed image and in it `envoy -c /home/envoy/envoy.yaml`, which names two files:
// the clusters (the API servers and how to check them) and the listeners. kind replaces these
// files by renaming new ones, which then apply. This program, under the name of envoy, reads
// the parts of these files that kind writes and does the same with the proxy of the local
// provider: TCP to those API servers in turn that pass their checks. Unlike Envoy it resets the
// connections to an API server that stops answering. It serves its state at the admin address,
// as JSON.
//
// The files are those of pkg/cluster/internal/loadbalancer of sigs.k8s.io/kind.
package balancer

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	proxy "github.com/holdfast-ha/holdfast/clusters/local/balancer"
)

const (
	// Program is the name by which kind calls the balancer.
	Program = "envoy"
	// Banner is the balancer's output for --version.
	Banner = "envoy: the balancer of holdfast"
	// beat is how often the files are checked.
	beat = 250 * time.Millisecond
)

// Reexec runs the balancer, and does not return, in a copy of this program that is called
// Program. Call it first in main or TestMain: the image of the balancer contains a copy of the
// program that builds it.
func Reexec() {
	if filepath.Base(os.Args[0]) == Program {
		os.Exit(Main(os.Args[1:]))
	}
}

// Main is the balancer as a program, with -c FILE in args. SIGTERM and SIGINT stop it. It
// returns the exit code: 0, 1 if it failed, 2 for wrong use.
func Main(args []string) int {
	set := flag.NewFlagSet(Program, flag.ContinueOnError)
	file := set.String("c", "", "`file` that names the files of clusters and of listeners")
	version := set.Bool("version", false, "print what this is, and exit")
	if err := set.Parse(args); err != nil {
		return 2
	}
	if *version {
		fmt.Println(Banner)
		return 0
	}
	if *file == "" || set.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "envoy: want -c FILE and nothing else")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *file, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "envoy:", err)
		return 1
	}
	return 0
}

// run serves as configured by the files until ctx ends.
func run(ctx context.Context, file string, log io.Writer) error {
	b, err := readBootstrap(file)
	if err != nil {
		return fmt.Errorf("failed to read the configuration: %w", err)
	}
	s := server{status: b.Admin.Address.String(), log: log}
	defer s.close()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		if err := s.follow(b.DynamicResources.LDS.Source.Path, b.DynamicResources.CDS.Source.Path); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// server is the balancer with its last configuration.
type server struct {
	status              string
	log                 io.Writer
	listeners, clusters []byte
	running             *proxy.Balancer
	listen              string
}

// follow applies the files' configuration if it has changed. Unusable files must not take a
// balancer down; an address that cannot be listened on does, and kind restarts it.
func (s *server) follow(listenersFile, clustersFile string) error {
	listeners, err := os.ReadFile(listenersFile)
	if err != nil {
		return nil // not there yet, or just being replaced
	}
	clusters, err := os.ReadFile(clustersFile)
	if err != nil || bytes.Equal(listeners, s.listeners) && bytes.Equal(clusters, s.clusters) {
		return nil
	}
	s.listeners, s.clusters = listeners, clusters
	c, err := configure(listeners, clusters)
	if err != nil {
		fmt.Fprintf(s.log, "envoy: %v; keeping the old configuration\n", err)
		return nil
	}
	return s.apply(c)
}

func (s *server) apply(c proxy.Config) error {
	if c.Listen != s.listen {
		s.close()
	}
	if c.Listen == "" {
		fmt.Fprintln(s.log, "envoy: nothing to listen on yet")
		return nil
	}
	c.Status = s.status
	if s.running != nil {
		if err := s.running.Reconfigure(c); err != nil {
			return err
		}
	} else {
		b, err := proxy.Start(c)
		if err != nil {
			return err
		}
		s.running, s.listen = b, c.Listen
	}
	fmt.Fprintf(s.log, "envoy: serving on %s for %d API servers\n", c.Listen, len(c.Backends))
	return nil
}

func (s *server) close() {
	if s.running != nil {
		_ = s.running.Close() // it is stopping either way
	}
	s.running, s.listen = nil, ""
}
