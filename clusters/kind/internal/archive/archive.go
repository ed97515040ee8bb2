// Package archive writes container images from files, as archives for `docker load` and `ctr
// images import`, without an engine.
//
// The bytes depend only on the content of an image: times and owners are fixed. So the same
// image has the same digests, wherever and whenever it is built.
//
// The format is that of Docker's image specification v1.2: a manifest.json, and
// for each image its configuration and its layers as tar files.
package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Image is one image, under one name or several.
type Image struct {
	// Tags are full names with tags, such as registry.k8s.io/pause:3.10.
	Tags []string
	// Arch is the architecture, such as amd64.
	Arch   string
	Config Config
	// Layers are applied in this order.
	Layers []Layer
}

// Config is how containers of an image run; see the image specification
// (github.com/opencontainers/image-spec/blob/main/config.md).
type Config struct {
	User       string            `json:",omitempty"`
	Env        []string          `json:",omitempty"`
	Entrypoint []string          `json:",omitempty"`
	Cmd        []string          `json:",omitempty"`
	WorkingDir string            `json:",omitempty"`
	Labels     map[string]string `json:",omitempty"`
	StopSignal string            `json:",omitempty"`
}

// Layer writes a tar stream. It is called several times and must write the same bytes each
// time.
type Layer func(io.Writer) error

// epoch is the time of all that is in an archive.
var epoch = time.Unix(0, 0).UTC()

// manifest is one image in manifest.json.
type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// Write writes an archive with the images to w.
func Write(w io.Writer, images ...Image) error {
	tw := tar.NewWriter(w)
	var manifests []manifest
	written := map[string]bool{}
	for _, image := range images {
		m := manifest{RepoTags: image.Tags}
		var digests []string
		for _, layer := range image.Layers {
			digest, size, err := measure(layer)
			if err != nil {
				return err
			}
			digests = append(digests, "sha256:"+digest)
			name := digest + "/layer.tar"
			m.Layers = append(m.Layers, name)
			if written[name] {
				continue
			}
			written[name] = true
			if err := writeLayer(tw, name, size, layer); err != nil {
				return err
			}
		}
		config, err := image.config(digests)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(config)
		m.Config = hex.EncodeToString(sum[:]) + ".json"
		if !written[m.Config] {
			written[m.Config] = true
			if err := writeEntry(tw, m.Config, config); err != nil {
				return err
			}
		}
		manifests = append(manifests, m)
	}
	data, err := json.Marshal(manifests)
	if err != nil {
		return err
	}
	if err := writeEntry(tw, "manifest.json", data); err != nil {
		return err
	}
	return tw.Close()
}

// measure returns the SHA-256 of a layer and its size in bytes.
func measure(layer Layer) (digest string, size int64, err error) {
	h := sha256.New()
	n := &counter{w: h}
	if err := layer(n); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), n.size, nil
}

type counter struct {
	w    io.Writer
	size int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.size += int64(n)
	return n, err
}

func writeLayer(tw *tar.Writer, name string, size int64, layer Layer) error {
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: epoch, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	if err := layer(tw); err != nil {
		return err
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("a layer was not the same the second time: %w", err)
	}
	return nil
}

func writeEntry(tw *tar.Writer, name string, data []byte) error {
	h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: epoch, Typeflag: tar.TypeReg}
	return writeRegular(tw, h, bytes.NewReader(data))
}

// config returns the image's configuration, whose digest is the image's ID.
func (i Image) config(digests []string) ([]byte, error) {
	type rootfs struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	return json.Marshal(struct {
		Created      time.Time `json:"created"`
		Architecture string    `json:"architecture"`
		OS           string    `json:"os"`
		Config       Config    `json:"config"`
		RootFS       rootfs    `json:"rootfs"`
	}{epoch, i.Arch, "linux", i.Config, rootfs{"layers", digests}})
}
