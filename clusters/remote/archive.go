package remote

import (
	"archive/tar"
	"bytes"
	"errors"

	"github.com/klauspost/compress/gzip"

	"github.com/holdfast-ha/holdfast/clusters/agent"
)

// unpack reads the files of an agent from its input, as GNU tar and busybox both can.
const unpack = "tar -xzf - -C /"

// packed compresses what fill adds to an archive. An archive that is not the last one lacks the
// end, so that another one may follow it: gzip's format allows concatenation. The level is the
// fastest, since a better one would take longer than it saves on most networks.
func packed(last bool, fill func(*tar.Writer) error) ([]byte, error) {
	var all bytes.Buffer
	z, err := gzip.NewWriterLevel(&all, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	end := t.Flush
	if last {
		end = t.Close
	}
	if err := errors.Join(fill(t), end(), z.Close()); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}

// packProgram returns the first part of an archive, with the agent's program. It is the same for
// all nodes.
func packProgram() ([]byte, error) { return packed(false, agent.AddProgram) }

// packFiles returns the last part of an archive, with a node's own files.
func packFiles(files map[string][]byte) ([]byte, error) {
	return packed(true, func(t *tar.Writer) error { return agent.AddFiles(t, files, 0o644) })
}
