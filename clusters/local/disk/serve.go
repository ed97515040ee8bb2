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
	return http.Serve(l, d)
}

// request is a request to a disk's process.
type request struct {
	Fault  framework.DiskFault `json:"fault,omitzero"`
	Flip   framework.DiskFlip  `json:"flip,omitzero"`
	Handle string              `json:"handle,omitempty"`
	File   string              `json:"file,omitempty"`
	TTL    time.Duration       `json:"ttl,omitempty"`
}

// answer is its answer.
type answer struct {
	Handle   string                 `json:"handle,omitempty"`
	Counters framework.DiskCounters `json:"counters,omitzero"`
	Flipped  framework.DiskFlipped  `json:"flipped,omitzero"`
	Loss     framework.DiskLoss     `json:"loss,omitzero"`
	Unsynced bool                   `json:"unsynced,omitempty"`
}

// ServeHTTP answers POST /fault, /restore, /counters, /flip, /wipe, /unsynced,
// /freeze, /thaw and /drop.
func (d *Disk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var a answer
	var err error
	switch r.URL.Path {
	case "/fault":
		a.Handle, err = d.Fault(req.Fault, req.TTL)
	case "/restore":
		err = d.Restore(req.Handle)
	case "/counters":
		a.Counters, err = d.Counters(req.Handle)
	case "/flip":
		a.Flipped, err = d.Flip(req.Flip, req.TTL)
	case "/wipe":
		a.Handle, err = d.Wipe(req.TTL)
	case "/unsynced":
		a.Unsynced = d.Unsynced(req.File)
	case "/freeze":
		d.Freeze()
	case "/thaw":
		d.Thaw()
	case "/drop":
		a.Loss, err = d.Drop()
	default:
		http.NotFound(w, r)
		return
	}
	if handle := a.Handle + a.Flipped.Handle; handle != "" && err == nil && r.Context().Err() != nil {
		// The caller would not learn of it.
		err = errors.Join(context.Cause(r.Context()), d.Restore(handle))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	_ = json.NewEncoder(w).Encode(a)
}
