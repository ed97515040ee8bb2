package balancer

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is the balancer as a program, with `--config FILE` in args. SIGTERM and SIGINT stop it
// gracefully, SIGHUP reloads its file. It returns the exit code: 0, 1 if it failed, 2 for wrong
// use.
func Main(args []string) int {
	set := flag.NewFlagSet("balancer", flag.ContinueOnError)
	file := set.String("config", "", "`file` with the balancer's configuration (JSON)")
	if err := set.Parse(args); err != nil {
		return 2
	}
	if *file == "" || set.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "balancer: want --config FILE and nothing else")
		return 2
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	config, err := readConfig(*file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "balancer:", err)
		return 2
	}
	b, err := Start(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "balancer:", err)
		return 1
	}
	fmt.Fprintf(os.Stderr, "balancer: serving on %s for %d backends\n", b.Addr(), len(config.Backends))
	for received := range signals {
		if received != syscall.SIGHUP {
			break
		}
		// An unusable file must not take a balancer down.
		if config, err = readConfig(*file); err == nil {
			err = b.Reconfigure(config)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "balancer: keeping the old configuration:", err)
			continue
		}
		fmt.Fprintf(os.Stderr, "balancer: now serving for %d backends\n", len(config.Backends))
	}
	if err := b.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "balancer: failed to stop cleanly:", err)
		return 1
	}
	return 0
}

// readConfig reads the file of Main.
func readConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("failed to read the configuration: %w", err)
	}
	var config Config
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return Config{}, fmt.Errorf("failed to read the configuration %s: %w", path, err)
	}
	return config, config.Validate()
}
