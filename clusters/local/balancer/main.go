package balancer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is the balancer's process: args is the file with its configuration. SIGTERM and SIGINT stop
// it gracefully, SIGHUP reloads its file.
func Main(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: holdfast-balancer CONFIG")
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	config, err := readConfig(args[0])
	if err != nil {
		return err
	}
	b, err := Start(config)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "balancer: serving on %s for %d backends\n", b.Addr(), len(config.Backends))
	for received := range signals {
		if received != syscall.SIGHUP {
			break
		}
		// An unusable file must not take a balancer down.
		if config, err = readConfig(args[0]); err == nil {
			err = b.Reconfigure(config)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "balancer: keeping the old configuration:", err)
			continue
		}
		fmt.Fprintf(os.Stderr, "balancer: now serving for %d backends\n", len(config.Backends))
	}
	if err := b.Close(); err != nil {
		return fmt.Errorf("failed to stop cleanly: %w", err)
	}
	return nil
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
