package remote

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
)

//go:embed profiles/*.yaml
var embedded embed.FS

// detectable are the profiles that are tried on a node, in this order: the first one with a
// running API server fits.
var detectable = []string{"kubeadm", "rke2", "k3s", "k0s", "systemd", "processes"}

// microK8s is the command of MicroK8s, which has dqlite instead of etcd.
const microK8s = "kubelite"

// Profile describes how a distribution runs its components. Everything else is read from the
// processes.
type Profile struct {
	Name       string             `file:"-"`
	Digest     string             `file:"-"` // SHA-256, of the file
	Components []ProfileComponent `yaml:"components"`
	// PKI is the directory with kubeadm's certificates and the keys of their CAs, for faults
	// on certificates; empty if the distribution has none there.
	PKI string `yaml:"pki"`
	// Before are the systemd services that start components, such as that of a supervisor, besides
	// those of the components themselves: after a restart of the node they wait for the agent.
	Before []string `yaml:"before"`
}

// ProfileComponent is one component; see agent.Component.
type ProfileComponent struct {
	Name     framework.Component `yaml:"name"`
	Command  string              `yaml:"command"`
	Parent   string              `yaml:"parent"`
	Manifest string              `yaml:"manifest"`
	// Unit is the name of a systemd unit, or ownUnit.
	Unit string `yaml:"unit"`
	// Group is the same for components that run in one process.
	Group string `yaml:"group"`
	// Config is etcd's configuration file, if no flag names it.
	Config string `yaml:"config"`
	// Flags are the distribution's flags of the component, if its process shows none.
	Flags map[string]string `yaml:"flags"`
}

// ownUnit means the systemd unit that a process runs in, whatever its name.
const ownUnit = "own"

// profileOf returns a profile by its name or its path.
func profileOf(name string) (Profile, error) {
	read, file := embedded.ReadFile, "profiles/"+name+".yaml"
	if filepath.Base(name) != name {
		read, file = os.ReadFile, name
	}
	b, err := read(file)
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(name) == name {
		return Profile{}, fmt.Errorf("distribution %s is unknown%s: want auto, %s, or the path of a profile", name, nearest.Meant(detectable, name), strings.Join(detectable, ", "))
	}
	if err != nil {
		return Profile{}, fmt.Errorf("failed to read the distribution profile: %w", err)
	}
	return parseProfile(file, b)
}

// parseProfile reads a profile from a file, of which it has the name.
func parseProfile(file string, b []byte) (Profile, error) {
	sum := sha256.Sum256(b)
	p := Profile{Name: strings.TrimSuffix(filepath.Base(file), ".yaml"), Digest: hex.EncodeToString(sum[:])}
	f, err := yamlfile.Decode(file, b, &p, yamlfile.Format{Want: "a distribution profile"})
	if err != nil {
		return Profile{}, err
	}
	return p, p.validate(f.Where)
}

// validate returns the first error, with the position of its field.
func (p Profile) validate(position func(path string) string) error {
	for i, c := range p.Components {
		path := fmt.Sprintf("components[%d]", i)
		if problem := c.problem(path, p.Components); problem != "" {
			return fmt.Errorf("%s%s", position(path), problem)
		}
	}
	for i, unit := range p.Before {
		path := fmt.Sprintf("before[%d]", i)
		if !serviceName.MatchString(unit) {
			return fmt.Errorf("%s%s is %q: want a systemd service such as kubelet.service", position(path), path, unit)
		}
	}
	if !slices.ContainsFunc(p.Components, func(c ProfileComponent) bool { return c.Name == framework.APIServer }) {
		return fmt.Errorf("%sthe distribution profile has no %s", position("components"), framework.APIServer)
	}
	return nil
}

// serviceName is the name of a systemd service, without specifiers. The agent's unit starts after
// basic.target, and so after all sockets, paths, slices and local mounts: before one of those, it would
// be in a cycle, of which systemd leaves a unit out when the node starts.
var serviceName = regexp.MustCompile(`^[A-Za-z0-9:_.@\\-]+\.service$`)

// problem says what is wrong with a component of a profile, given all of them; empty if nothing is.
func (c ProfileComponent) problem(path string, all []ProfileComponent) string {
	switch {
	case c.Name == "" || c.Command == "":
		return path + " needs a name and a command"
	case c.Manifest != "" && c.Unit != "":
		return fmt.Sprintf("%s has both a manifest and a unit: want one of them", c.Name)
	case c.Manifest != "" && (!filepath.IsAbs(c.Manifest) || strings.ContainsFunc(c.Manifest, unicode.IsSpace)):
		return fmt.Sprintf("the manifest %q of %s must be an absolute path without spaces", c.Manifest, c.Name)
	case c.Manifest != "" && c.Parent == "":
		return fmt.Sprintf("%s has a manifest and no parent, by which the first process of its container is found", c.Name)
	}
	for _, o := range all {
		one := c.Command == o.Command && c.Parent == o.Parent && c.Manifest == o.Manifest && c.Unit == o.Unit
		if c.Group != "" && c.Group == o.Group && !one {
			return fmt.Sprintf("%s and %s are in the group %s, which is one process, and differ in command, parent, manifest or unit", c.Name, o.Name, c.Group)
		}
	}
	return ""
}

// manifestsFor returns the manifests of static pods in the profiles to try on a node.
func manifestsFor(distribution string, n clusters.InventoryNode) (files []string, err error) {
	for _, name := range profilesFor(distribution, n) {
		p, err := profileOf(name)
		if err != nil {
			return nil, err
		}
		for _, c := range p.Components {
			if c.Manifest != "" && !slices.Contains(files, c.Manifest) {
				files = append(files, c.Manifest)
			}
		}
	}
	return files, nil
}
