// Package balancer is the load balancer of a kind cluster where the image that kind
// starts is not available from a registry.
//
// kind runs a fixed image and in it `envoy -c /home/envoy/envoy.yaml`, which names
// two files: the clusters (the API servers and how to check them) and the listeners.
// kind moves new ones into their place, and they count from then on. This program,
// under the name of envoy, reads as much of these files as kind writes and does the
// same with the proxy of the local provider: TCP to the API servers in turn that
// answer their checks. Other than Envoy it resets the connections to an API server
// that stops answering. Its state is at the admin address, as JSON.
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
	// Program is the name that kind calls the balancer by.
	Program = "envoy"
	// Banner is what the balancer says when it is asked for --version.
	Banner = "envoy: the balancer of holdfast"
	// beat is how often the files are looked at.
	beat = 250 * time.Millisecond
)

// Reexec makes a copy of this program that is called Program the balancer and does
// not return in it. Call it first thing in main or TestMain: the image of the
// balancer holds a copy of the program that makes it.
func Reexec() {
	if filepath.Base(os.Args[0]) == Program {
		os.Exit(Main(os.Args[1:]))
	}
}

// Main is the balancer as a program, with -c FILE in args. SIGTERM and SIGINT end
// it. It returns the exit code: 0, 1 when it could not do its work, 2 for wrong use.
func Main(args []string) int {
	set := flag.NewFlagSet(Program, flag.ContinueOnError)
	file := set.String("c", "", "`file` that names the files of clusters and of listeners")
	version := set.Bool("version", false, "say what this is, and end")
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

// run serves as the files say until ctx ends.
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

// server is the balancer with what it was last told.
type server struct {
	status              string
	log                 io.Writer
	listeners, clusters []byte
	running             *proxy.Balancer
	listen              string
}

// follow takes over what the files say, where that has changed. Files that cannot
// be used must not take a balancer down; an address that cannot be listened on
// does, and kind starts it again.
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
		_ = s.running.Close() // it is at its end either way
	}
	s.running, s.listen = nil, ""
}
