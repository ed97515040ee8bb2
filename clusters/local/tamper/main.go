package tamper

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Config says where the proxies of a node listen and what is behind them.
type Config struct {
	// Control is the path of the socket for rules.
	Control string     `json:"control"`
	Etcd    EtcdConfig `json:"etcd"`
	API     APIConfig  `json:"api"`
}

// Main is the proxies of a node as a program, with the path of a Config in
// args. It returns only with an error.
func Main(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: holdfast-tamper CONFIG")
	}
	var c Config
	if err := system.ReadJSON(args[0], &c); err != nil {
		return fmt.Errorf("failed to read the configuration of the proxies %s: %w", args[0], err)
	}
	etcd, err := startEtcd(c.Etcd)
	if err != nil {
		return err
	}
	api, err := startAPI(c.API)
	if err != nil {
		return err
	}
	if err := os.Remove(c.Control); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to clear the proxies' socket: %w", err)
	}
	l, err := net.Listen("unix", c.Control)
	if err != nil {
		return fmt.Errorf("failed to listen on the proxies' socket: %w", err)
	}
	return http.Serve(l, control(map[Site]*desk{Etcd: etcd.desk, API: api.desk}))
}
