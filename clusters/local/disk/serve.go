package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
)

// ServeConfig is the configuration of a disk's process.
type ServeConfig struct {
	Config
	// Socket is the path of the socket on which the process serves requests.
	Socket string `json:"socket"`
}

// readyFD is where a disk's process writes an empty line when it serves, or an error.
const readyFD = 3

// Serve runs a disk as a process of its own: args is one ServeConfig in JSON. It returns when
// the disk cannot be served any more; killing the process is unplugging the disk.
func Serve(args []string) error {
	ready := os.NewFile(readyFD, "ready")
	err := serve(args, func() { fmt.Fprintln(ready); ready.Close() })
	if err != nil {
		fmt.Fprintln(ready, err)
	}
	return err
}

func serve(args []string, ready func()) error {
	var cfg ServeConfig
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &cfg) != nil {
		return errors.New("usage: disk CONFIG")
	}
	d, err := Mount(cfg.Config)
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", cfg.Socket)
	if err != nil {
		return errors.Join(fmt.Errorf("failed to listen on the disk's socket: %w", err), d.Close())
	}
	ready()
	return http.Serve(l, d.handler())
}

// request is a request to a disk's process.
type request struct {
	Fault  framework.DiskFault `json:"fault,omitzero"`
	Flip   framework.DiskFlip  `json:"flip,omitzero"`
	Handle string              `json:"handle,omitempty"`
	File   string              `json:"file,omitempty"`
	TTL    time.Duration       `json:"ttl,omitempty"`
}

// handler answers the requests of a Process.
func (d *Disk) handler() http.Handler {
	mux := http.NewServeMux()
	on := func(verb string, do func(context.Context, request) (any, error)) {
		agenthttp.Answer(mux, "POST /"+verb, do)
	}
	on("fault", func(ctx context.Context, r request) (any, error) {
		handle, err := d.Fault(r.Fault, r.TTL)
		return handle, d.keep(ctx, handle, err)
	})
	on("flip", func(ctx context.Context, r request) (any, error) {
		flipped, err := d.Flip(r.Flip, r.TTL)
		return flipped, d.keep(ctx, flipped.Handle, err)
	})
	on("wipe", func(ctx context.Context, r request) (any, error) {
		handle, err := d.Wipe(r.TTL)
		return handle, d.keep(ctx, handle, err)
	})
	on("restore", func(_ context.Context, r request) (any, error) { return nil, d.Restore(r.Handle) })
	on("counters", func(_ context.Context, r request) (any, error) { return d.Counters(r.Handle) })
	on("unsynced", func(_ context.Context, r request) (any, error) { return d.Unsynced(r.File), nil })
	on("freeze", func(context.Context, request) (any, error) { d.Freeze(); return nil, nil })
	on("thaw", func(context.Context, request) (any, error) { d.Thaw(); return nil, nil })
	on("drop", func(context.Context, request) (any, error) { return d.Drop() })
	return mux
}

// keep takes a fault back if the client has given up: it would not learn the handle. err is that of
// the injection.
func (d *Disk) keep(ctx context.Context, handle string, err error) error {
	if handle != "" && err == nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), d.Restore(handle))
	}
	return err
}
